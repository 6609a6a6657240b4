// Package egress says which addresses a program may dial when others choose the destination.
//
// The address of a connection is checked when it is dialed, so neither a name nor a redirect can lead to a refused address. Only
// addresses of the public internet may be dialed, and additional ones that are listed.
package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrPrivate is returned by Check for an address that is not public. List it as one that may be dialed, or use another one.
var ErrPrivate = errors.New("is not public")

// Check returns ErrPrivate unless an address with a port is public, or is among the private ones that may be dialed. It fits the
// ControlContext of a net.Dialer.
func Check(address string, private []netip.Prefix) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("the address cannot be checked")
	}
	addr := at.Addr().WithZone("").Unmap()
	if public(addr) || slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	return fmt.Errorf("its address %s %w", addr, ErrPrivate)
}

// ParsePrefix parses addresses as people write them: one, or a range such as 10.1.0.0/16.
func ParsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q: write an address or a range such as 10.1.0.0/16", text)
	}
	return p, nil
}

// public reports whether an address belongs to the public internet.
func public(a netip.Addr) bool {
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// special lists ranges that look public but are not, or that map to arbitrary
// other addresses.
func special() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8",       // this network
		"100.64.0.0/10",   // carrier-grade NAT, and metadata services of some clouds
		"192.0.0.0/24",    // protocol assignments
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // 6to4 relays
		"198.18.0.0/15",   // benchmarking
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"240.0.0.0/4",     // reserved, and broadcast
		"::/96",           // IPv4-compatible, deprecated
		"64:ff9b::/96",    // NAT64
		"64:ff9b:1::/48",  // local NAT64
		"100::/64",        // discarded
		"2001::/23",       // protocol assignments, with tunnels to IPv4
		"2001:db8::/32",   // documentation
		"2002::/16",       // 6to4
		"3fff::/20",       // documentation
		"5f00::/16",       // segment routing
		"fec0::/10",       // site-local, deprecated
	} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

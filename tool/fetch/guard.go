package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/idna"

	"github.com/turnlog/turnlog/tool"
)

// hostRule is an entry of the list of hosts.
type hostRule struct {
	name  string // as plainHost has it; empty: any
	below bool   // hosts below name, not name itself
	port  string // empty: the usual one of the scheme
}

func parseHost(entry string) (hostRule, error) {
	bad := func() (hostRule, error) {
		return hostRule{}, fmt.Errorf("host %q: write example.com, *.example.com, example.com:8080 or *", entry)
	}
	var r hostRule
	host := entry
	if h, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return bad()
		}
		host, r.port = h, port
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if host == "*" {
		return r, nil
	}
	r.name, r.below = strings.CutPrefix(host, "*.")
	addr, err := netip.ParseAddr(r.name)
	isAddress := err == nil
	r.name = plainHost(r.name)
	if isAddress && !r.below && addr.Zone() == "" {
		return r, nil
	}
	if isAddress || strings.ContainsAny(r.name, "*/@: ") || slices.Contains(strings.Split(r.name, "."), "") {
		return bad()
	}
	return r, nil
}

// plainHost is a name as it is looked up: in lower case and ASCII, without a last dot;
// an address is written in its shortest way.
func plainHost(name string) string {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.String()
	}
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		name = ascii
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

func (r hostRule) fits(host, port, usual string) bool {
	if r.port != "" && r.port != port || r.port == "" && port != usual {
		return false
	}
	if r.below {
		return strings.HasSuffix(host, "."+r.name)
	}
	return r.name == "" || r.name == host
}

// allowed checks a URL against the list of hosts.
func (f *fetcher) allowed(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" { // only a redirect leads here
		return tool.Failure(CodeHost, "%s is not an address of the web", u.Redacted())
	}
	usual := "80"
	if u.Scheme == "https" {
		usual = "443"
	}
	host, port := plainHost(u.Hostname()), first(u.Port(), usual)
	if !slices.ContainsFunc(f.hosts, func(r hostRule) bool { return r.fits(host, port, usual) }) {
		hint := ""
		if port != usual { // the name alone may well stand in the list
			hint = " (on the usual port, where none is named)"
		}
		return tool.Failure(CodeHost, "%s may not be fetched from: allowed are %s%s", u.Host, strings.Join(f.opts.Hosts, ", "), hint)
	}
	return nil
}

func (f *fetcher) newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: f.opts.Resolver, ControlContext: f.dialled}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, // it would dial in our stead
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			DisableKeepAlives: true, // nothing is left behind when the tool is not used any more
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > f.opts.Redirects {
				return fmt.Errorf("more than %d redirects, the last one to %s", f.opts.Redirects, req.URL.Redacted())
			}
			req.Header.Del("Referer")
			return f.allowed(req.URL)
		},
	}
}

// dialled checks the address of a connection that is about to be made.
func (f *fetcher) dialled(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("its address cannot be checked")
	}
	addr := at.Addr().WithZone("").Unmap()
	if slices.ContainsFunc(f.opts.Private, func(p netip.Prefix) bool { return p.Contains(addr) }) || public(addr) {
		return nil
	}
	return tool.Failure(CodeAddress, "its address %s is not a public one, and may not be fetched from", addr)
}

// public reports whether an address is one of the public internet.
func public(a netip.Addr) bool {
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// special lists ranges that look like public ones and are not, or that stand for
// other addresses, which may be any.
func special() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8",       // this network
		"100.64.0.0/10",   // shared by carriers, and used for metadata by some clouds
		"192.0.0.0/24",    // of the protocol itself
		"192.0.2.0/24",    // for documentation
		"192.88.99.0/24",  // relays
		"198.18.0.0/15",   // for measurements
		"198.51.100.0/24", // for documentation
		"203.0.113.0/24",  // for documentation
		"240.0.0.0/4",     // reserved, and broadcast
		"::/96",           // IPv4 in an old way
		"64:ff9b::/96",    // IPv4 behind a translator
		"64:ff9b:1::/48",  // the same, locally
		"100::/64",        // discarded
		"2001::/23",       // of the protocol itself, with tunnels to IPv4
		"2001:db8::/32",   // for documentation
		"2002::/16",       // tunnels to IPv4
		"3fff::/20",       // for documentation
		"5f00::/16",       // segment routing
		"fec0::/10",       // local to a site, in an old way
	} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

package fetch

import (
	"cmp"
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

// hostRule is an entry in the list of allowed hosts.
type hostRule struct {
	name  string // as plainHost returns it; empty: any
	below bool   // hosts below name, not name itself
	port  string // empty: the scheme's default
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

// plainHost returns a name as it is looked up: in lower case and ASCII, without a
// trailing dot. An address is in its shortest form.
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

// allowed checks a URL against the list of allowed hosts.
func (f *fetcher) allowed(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" { // only a redirect gets here
		return tool.Failure(CodeHost, "%s is not a web address", u.Redacted())
	}
	usual := "80"
	if u.Scheme == "https" {
		usual = "443"
	}
	host, port := plainHost(u.Hostname()), cmp.Or(u.Port(), usual)
	if !slices.ContainsFunc(f.hosts, func(r hostRule) bool { return r.fits(host, port, usual) }) {
		hint := ""
		if port != usual { // the name alone may be in the list
			hint = " (on the default port unless one is given)"
		}
		return tool.Failure(CodeHost, "%s is not an allowed host: allowed are %s%s", u.Host, strings.Join(f.opts.Hosts, ", "), hint)
	}
	return nil
}

const maxRedirects = 5

func (f *fetcher) newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: f.opts.Resolver, ControlContext: f.dialed}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: dialer.DialContext, // a proxy would dial instead of us
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			DisableKeepAlives: true, // leaves nothing open when the tool is no longer used
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects, the last to %s", maxRedirects, req.URL.Redacted())
			}
			req.Header.Del("Referer")
			return f.allowed(req.URL)
		},
	}
}

// dialed checks the address of a connection before it is made.
func (f *fetcher) dialed(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("its address cannot be checked")
	}
	addr := at.Addr().WithZone("").Unmap()
	if slices.ContainsFunc(f.opts.Private, func(p netip.Prefix) bool { return p.Contains(addr) }) || public(addr) {
		return nil
	}
	return tool.Failure(CodeAddress, "its address %s is not public, so fetching from it is not allowed", addr)
}

// public reports whether an address belongs to the public internet.
func public(a netip.Addr) bool {
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// special lists ranges that look public but are not, or that stand for arbitrary
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

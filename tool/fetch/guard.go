package fetch

import (
	"cmp"
	"context"
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

	"github.com/turnlog/turnlog/internal/egress"
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

// plainHost returns a name in the form in which it is looked up: in lower case and ASCII, without a
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
			Proxy: nil, DialContext: dialer.DialContext, // with a proxy, the address check would not see the target
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
	if err := egress.Check(address, f.opts.Private); err != nil {
		return tool.Failure(CodeAddress, "%v, so fetching from it is not allowed", err)
	}
	return nil
}

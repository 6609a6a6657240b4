package httptool

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Service is an HTTP service whose operations are tools.
type Service struct {
	Name    string            // letters, digits, '-' and '_', at most 32
	URL     string            // of its manifest or OpenAPI document
	Headers map[string]string // of every request; values are references
}

// Config configures a [Manager].
type Config struct {
	Services []Service
	Private  []netip.Prefix           // addresses that may be dialed although they are not public
	Timeout  time.Duration            // of a call whose description has none; 0: 2 min
	Getenv   func(name string) string // nil: os.Getenv
	Version  string                   // of this program, sent to services
	Logger   *zap.Logger              // nil: silent

	every    time.Duration // how often to ask a service what it offers; 0: 3 s
	patience time.Duration // for its answer; 0: 10 s
}

const maxName = 32

// Parse parses a service in the form of command lines: NAME=URL.
func Parse(text string) (Service, error) {
	name, at, ok := strings.Cut(text, "=")
	if !ok {
		return Service{}, fmt.Errorf("%q: write the tool's name, = and its URL", text)
	}
	s := Service{Name: name, URL: at}
	return s, s.check()
}

// Address returns the URL without anything that could be secret.
func (s Service) Address() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

func (s Service) check() error {
	if !content.IsToken(s.Name) || len(s.Name) > maxName {
		return fmt.Errorf("service %q: use a name of 1 to %d letters, digits, '-' or '_'", s.Name, maxName)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("service %s: the URL must be like https://host/path, without a user, a password or a fragment", s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		switch key := http.CanonicalHeaderKey(name); {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("service %s: header %q: is not a header name", s.Name, name)
		case reserved(key):
			return fmt.Errorf("service %s: header %s is reserved", s.Name, name)
		case !tool.IsReference(s.Headers[name]):
			return fmt.Errorf("service %s: header %s: use a reference, env:NAME or file:PATH", s.Name, name)
		}
	}
	return nil
}

// reserved reports whether only this package may set a header.
func reserved(key string) bool {
	return slices.Contains([]string{
		"Host", "Content-Length", "Transfer-Encoding", "Connection", "Content-Type", "Accept", "User-Agent", "If-None-Match", "Traceparent", "Baggage", tool.HeaderKey,
	}, key) || strings.HasPrefix(key, "Turnlog-")
}

// Check returns an error if the Config is invalid.
func (c Config) Check() error {
	if c.Timeout < 0 {
		return fmt.Errorf("timeout %v: use 0 or more", c.Timeout)
	}
	for i, s := range c.Services {
		if err := s.check(); err != nil {
			return err
		}
		for _, other := range c.Services[:i] {
			switch {
			case other.Name == s.Name:
				return fmt.Errorf("two services have the name %s", s.Name)
			case clash(s.Name, other.Name) || clash(other.Name, s.Name):
				return fmt.Errorf("services %s and %s: their tools could have the same names; use '-' for '_'", other.Name, s.Name)
			}
		}
	}
	return nil
}

// clash reports whether a tool of the service short could have the name of a tool of long.
func clash(short, long string) bool { return strings.HasPrefix(long, short+"_") }

// named returns the addresses that a URL itself contains, which may be dialed.
func named(at *url.URL) []netip.Prefix {
	if addr, err := netip.ParseAddr(at.Hostname()); err == nil {
		addr = addr.WithZone("").Unmap()
		return []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}
	}
	if at.Hostname() == "localhost" {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	return nil
}

var errRedirect = errors.New("the service redirects: give the URL that it redirects to")

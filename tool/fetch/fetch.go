// Package fetch offers one tool that reads from the web: http_fetch.
//
// The model chooses the URL, so this package checks it twice. The host of the URL, and of
// each redirect, must be allowed; and the address that is dialed must be public, whatever
// the name resolves to. The second check is on the connection itself, so a name that
// resolves differently the second time cannot bypass it. Addresses of this machine,
// private networks, link-local addresses with the metadata services of clouds, and
// everything else outside the public internet are refused unless [Options].Private names
// them. Proxies from the environment are not used, because the proxy would dial the
// address.
//
// Bodies are read up to a limit in size and time and shown as text: HTML without its
// markup, JSON and other text unchanged. Other content is described, not shown. If the
// host keeps long outputs (see [tool.Stash]), it keeps longer text whole, and images,
// audio, video and PDF are attached to the result. No cookies are kept, and Accept is
// the only header that a model can choose.
//
// To test with it, start an httptest server and allow 127.0.0.0/8.
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
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

// Failure codes, in addition to those of package tool.
const (
	CodeHost    = "host_not_allowed"    // the host is not allowed
	CodeAddress = "address_not_allowed" // the host's address is not public
	CodeNetwork = "network"             // the connection failed or broke off
)

// Options configures [New].
type Options struct {
	// Hosts are the allowed hosts, required: example.com is that host, *.example.com
	// every host below it, and * any host. A port may follow, as in example.com:8080;
	// the default is the scheme's port.
	Hosts   []string
	Methods []string       // zero: GET and HEAD; also POST, PUT, PATCH and DELETE, which may send a body
	Private []netip.Prefix // addresses that may be dialed although they are not public

	Timeout  time.Duration // of a fetch with its redirects; zero: 30 s
	MaxBytes int64         // bytes of a body to read; the rest is read only if the host keeps it; zero: 1 MiB

	Resolver *net.Resolver // nil: the system's
}

func (o Options) withDefaults() Options {
	if len(o.Methods) == 0 {
		o.Methods = []string{http.MethodGet, http.MethodHead}
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), 30*time.Second)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 1<<20)
	return o
}

func methods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// New returns the tool http_fetch. It returns an error if no host is allowed, or if a
// host or a method is invalid.
func New(opts Options) (tool.Tool, error) {
	opts = opts.withDefaults()
	f := &fetcher{opts: opts}
	if len(opts.Hosts) == 0 {
		return nil, errors.New("http_fetch: no host is allowed: name the allowed hosts, or * for any")
	}
	for _, h := range opts.Hosts {
		rule, err := parseHost(h)
		if err != nil {
			return nil, fmt.Errorf("http_fetch: %w", err)
		}
		f.hosts = append(f.hosts, rule)
	}
	for _, m := range opts.Methods {
		if !slices.Contains(methods(), m) {
			return nil, fmt.Errorf("http_fetch: method %q: use one of %s", m, strings.Join(methods(), ", "))
		}
	}
	f.client = f.newClient()
	options := []tool.Option{
		tool.WithSpec(func(s *tool.Spec) { s.Timeout = opts.Timeout + 5*time.Second }), // the tool's own timeout comes first: its error says more
		tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["url"].MinLength = new(1)
			for _, m := range opts.Methods {
				s.Properties["method"].Enum = append(s.Properties["method"].Enum, m)
			}
		}),
	}
	if !slices.ContainsFunc(opts.Methods, changes) {
		options = append(options, tool.ReadOnly(), tool.Without("body", "content_type"))
	}
	return tool.CallFunc("http_fetch",
		fmt.Sprintf("Fetches a URL (http or https) and shows its content as text; HTML is shown without markup unless raw is set. Allowed hosts: %s. "+
			"Bodies are read up to %d bytes.", strings.Join(opts.Hosts, ", "), opts.MaxBytes),
		f.fetch, options...)
}

// changes reports whether a request with the method may change something.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

type input struct {
	URL    string `json:"url" jsonschema:"What to fetch, for example https://example.com/page."`
	Method string `json:"method,omitempty" jsonschema:"The request method. Default: GET."`
	Accept string `json:"accept,omitempty" jsonschema:"Acceptable content types, for example application/json. Default: any."`
	Raw    bool   `json:"raw,omitempty" jsonschema:"Show HTML with its markup."`

	Body        string `json:"body,omitempty" jsonschema:"The request body."`
	ContentType string `json:"content_type,omitempty" jsonschema:"The content type of body. Default: application/json."`
}

// target is what a permission request is about.
type target struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	Host   string `json:"host"`
}

func (in input) method() string { return cmp.Or(in.Method, http.MethodGet) }

// Describe describes the permission request.
func (in input) Describe() (kind, summary string, about any) {
	t := target{URL: in.URL, Method: in.method()}
	if u, err := url.Parse(in.URL); err == nil {
		t.Host = u.Hostname()
	}
	kind = "network.fetch"
	if changes(t.Method) {
		kind = "network.send"
	}
	return kind, t.Method + " " + in.URL, t
}

type fetcher struct {
	opts   Options
	hosts  []hostRule
	client *http.Client
}

func (f *fetcher) fetch(ctx context.Context, c tool.Call, in input) (tool.Output, error) {
	bad := func(format string, args ...any) (tool.Output, error) {
		return tool.Output{}, tool.Failure(tool.CodeInvalidArguments, format, args...)
	}
	u, err := url.Parse(in.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return bad("url: %q is not a web address: write it like https://example.com/page", in.URL)
	case u.User != nil:
		return bad("url: it contains a user name or a password, which are not sent")
	case in.Body != "" && !changes(in.method()):
		return bad("body: %s cannot have one", in.method())
	case strings.ContainsAny(in.Accept+in.ContentType, "\r\n\x00"):
		return bad("accept, content_type: a header cannot contain line breaks")
	}
	if err := f.allowed(u); err != nil {
		return tool.Output{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, errTimeout)
	defer cancel()
	out, err := f.exchange(limited, c, in, u)
	if err == nil {
		return out, nil
	}
	return tool.Output{}, f.explain(ctx, limited, u, err)
}

var errTimeout = errors.New("the fetch timed out")

// explain turns an error into one that a model understands.
func (f *fetcher) explain(ctx, limited context.Context, u *url.URL, err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return tool.Failure(tool.CodeTimeout, "%s did not finish its response within %s", u.Host, f.opts.Timeout)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return tool.Failure(CodeNetwork, "%s: %v", u.Host, err)
}

func (f *fetcher) exchange(ctx context.Context, c tool.Call, in input, u *url.URL) (tool.Output, error) {
	req, err := http.NewRequestWithContext(ctx, in.method(), u.String(), strings.NewReader(in.Body))
	if err != nil {
		return tool.Output{}, tool.Failure(tool.CodeInvalidArguments, "url: %v", err)
	}
	if in.Body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", cmp.Or(in.ContentType, "application/json"))
	}
	req.Header.Set("Accept", cmp.Or(in.Accept, "*/*"))
	req.Header.Set("User-Agent", "turnlog-http_fetch")
	resp, err := f.client.Do(req)
	if err != nil {
		return tool.Output{}, err //nolint:wrapcheck // explain wraps it
	}
	defer func() { _ = resp.Body.Close() }() // everything needed was read
	return f.show(ctx, c, resp, in.Raw)
}

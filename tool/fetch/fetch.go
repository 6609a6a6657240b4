// Package fetch offers one tool that reads from the web: http_fetch.
//
// The one idea: a model says where to go, so where it may go is decided here, twice.
// The host of a URL, and of each redirect, must be on the list of hosts; and the
// address that is dialled must be a public one, whatever the name resolved to. The
// second check is made on the connection itself, so a name that resolves to something
// else the second time gains nothing. Addresses of this machine, of private networks,
// link-local ones with the metadata services of clouds, and everything else that is not
// the public internet are refused unless [Options].Private names them. Proxies of the
// environment are not used, since they would dial for us.
//
// Bodies are read up to a bound, in time, and shown as text: HTML without its markup,
// JSON and other text as they are. What is not text is described and not shown. Where the
// host keeps long outputs, see [tool.Stash], a longer body of text is kept as it came, and
// images, sounds, films and PDF are attached to the result. No cookies are kept, and no header of the model's choice is sent but Accept.
//
// To test against it, start an httptest server and allow 127.0.0.0/8.
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
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

// Codes of failures, beside those of package tool.
const (
	CodeHost    = "host_not_allowed"    // the host is not on the list
	CodeAddress = "address_not_allowed" // the host's address is not a public one
	CodeNetwork = "network"             // the server could not be reached, or broke off
)

// Options configures [New].
type Options struct {
	// Hosts are those that may be fetched from, required: example.com is that host,
	// *.example.com every host below it, and * any host. A port may follow, as in
	// example.com:8080; without one the usual port of the scheme is meant.
	Hosts   []string
	Methods []string       // zero: GET and HEAD; also POST, PUT, PATCH and DELETE, which may send a body
	Private []netip.Prefix // addresses that may be dialled although they are not public

	Timeout   time.Duration // of a fetch with its redirects; zero: 30 s
	MaxBytes  int64         // of a body that are looked at; what is more is not read unless the host keeps it; zero: 1 MiB
	Redirects int           // how many are followed; zero: 5; negative: none

	Resolver *net.Resolver // nil: the system's
}

func (o Options) withDefaults() Options {
	if len(o.Methods) == 0 {
		o.Methods = []string{http.MethodGet, http.MethodHead}
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 20
	}
	switch {
	case o.Redirects == 0:
		o.Redirects = 5
	case o.Redirects < 0:
		o.Redirects = 0
	}
	return o
}

func methods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// New returns the tool http_fetch. It returns an error if no host is allowed, or if a
// host or a method cannot be.
func New(opts Options) (tool.Tool, error) {
	opts = opts.withDefaults()
	f := &fetcher{opts: opts}
	if len(opts.Hosts) == 0 {
		return nil, errors.New("http_fetch: no host is allowed: name those that are, or * for any")
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
			return nil, fmt.Errorf("http_fetch: method %q: known are %s", m, strings.Join(methods(), ", "))
		}
	}
	f.client = f.newClient()
	effects := tool.WithSpec(func(*tool.Spec) {})
	if !slices.ContainsFunc(opts.Methods, changes) {
		effects = tool.ReadOnly()
	}
	return tool.CallFunc("http_fetch",
		fmt.Sprintf("Fetches a URL (http or https) and shows what it holds as text; of HTML only the text is shown unless raw is set. Hosts that may be fetched from: %s. "+
			"Bodies are read up to %d bytes.", strings.Join(opts.Hosts, ", "), opts.MaxBytes),
		f.fetch, effects,
		tool.WithSpec(func(s *tool.Spec) { s.Timeout = opts.Timeout + 5*time.Second }), // the tool's own comes first: it says more
		tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["url"].MinLength = new(1)
			s.Properties["method"].Enum = nil
			for _, m := range opts.Methods {
				s.Properties["method"].Enum = append(s.Properties["method"].Enum, m)
			}
			if !slices.ContainsFunc(opts.Methods, changes) {
				for _, name := range []string{"body", "content_type"} {
					delete(s.Properties, name)
					s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(p string) bool { return p == name })
				}
			}
		}))
}

// changes reports whether a request of the method may change something.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

type input struct {
	URL    string `json:"url" jsonschema:"What to fetch, for example https://example.com/page."`
	Method string `json:"method,omitempty" jsonschema:"The method of the request. GET if left out."`
	Accept string `json:"accept,omitempty" jsonschema:"The kinds of content that are wanted, for example application/json. Any if left out."`
	Raw    bool   `json:"raw,omitempty" jsonschema:"Show HTML with its markup."`

	Body        string `json:"body,omitempty" jsonschema:"What to send."`
	ContentType string `json:"content_type,omitempty" jsonschema:"What kind of content body is. application/json if left out."`
}

// target is what a request for permission is about.
type target struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	Host   string `json:"host"`
}

func (in input) method() string {
	if in.Method == "" {
		return http.MethodGet
	}
	return in.Method
}

// Describe names the request for permission.
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
		return tool.Output{}, &tool.Error{Code: tool.CodeInvalidArguments, Message: fmt.Sprintf(format, args...)}
	}
	u, err := url.Parse(in.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return bad("url: %q is not an address of the web: write it like https://example.com/page", in.URL)
	case u.User != nil:
		return bad("url: it holds a name or a password, which are not sent")
	case in.Body != "" && !changes(in.method()):
		return bad("body: %s sends none", in.method())
	case strings.ContainsAny(in.Accept+in.ContentType, "\r\n\x00"):
		return bad("accept, content_type: line breaks cannot be sent")
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

var errTimeout = errors.New("the time of the fetch is over")

// explain makes what went wrong an error for the model.
func (f *fetcher) explain(ctx, limited context.Context, u *url.URL, err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return tool.Failure(tool.CodeTimeout, "%s did not answer in full within %s", u.Host, f.opts.Timeout)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return tool.Failure(CodeNetwork, "%s: %v", u.Host, err)
}

func (f *fetcher) exchange(ctx context.Context, c tool.Call, in input, u *url.URL) (tool.Output, error) {
	req, err := http.NewRequestWithContext(ctx, in.method(), u.String(), strings.NewReader(in.Body))
	if err != nil {
		return tool.Output{}, &tool.Error{Code: tool.CodeInvalidArguments, Message: "url: " + err.Error()}
	}
	if in.Body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", first(in.ContentType, "application/json"))
	}
	req.Header.Set("Accept", first(in.Accept, "*/*"))
	req.Header.Set("User-Agent", "turnlog-http_fetch")
	resp, err := f.client.Do(req)
	if err != nil {
		return tool.Output{}, err //nolint:wrapcheck // explain does
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it is wanted
	return f.show(ctx, c, resp, in.Raw)
}

func first(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}

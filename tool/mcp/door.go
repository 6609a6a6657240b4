package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Resolution answers a server's want of authorization, with a token, with a handler
// that obtains one, or with a no.
type Resolution struct {
	Token     string            // a bearer token
	Handler   auth.OAuthHandler // of the SDK; it may send a person to a browser and wait for that
	Cancelled bool              // nobody authorizes it; calls go on to fail
}

// door is the way to a server's URL: it adds credentials and headers to each request,
// and takes note of what the server refuses for want of them.
type door struct {
	server Server
	origin string
	getenv func(string) string
	limit  int
	base   http.RoundTripper
	idle   func() // closes what is open and not used

	mu      sync.Mutex
	token   string            // what ResolveAuth brought, until it is refused
	handler auth.OAuthHandler // nil: none
	request *http.Request     // what was refused last, for the handler; nil: nothing
	refusal *http.Response
}

// newDoor returns nil for a command.
func newDoor(s Server, all Config) *door {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil {
		return nil
	}
	d := &door{server: s, origin: u.Scheme + "://" + u.Host, getenv: all.Getenv, limit: all.MaxMessage, handler: s.OAuth, idle: func() {}}
	switch t, ok := http.DefaultTransport.(*http.Transport); {
	case s.Client != nil && s.Client.Transport != nil:
		d.base = s.Client.Transport
	case ok:
		t = t.Clone()
		d.base, d.idle = t, t.CloseIdleConnections
	default:
		d.base = http.DefaultTransport
	}
	return d
}

// client is what the SDK sends its requests with.
func (d *door) client() *http.Client {
	var c http.Client
	if d.server.Client != nil {
		c = *d.server.Client
	}
	c.Transport = d
	return &c
}

func (d *door) close() { d.idle() }

// RoundTrip sends a request with what the server wants to see.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme+"://"+r.URL.Host != d.origin {
		return d.base.RoundTrip(r) //nolint:wrapcheck // a redirect leads elsewhere: nothing of ours goes there
	}
	resp, bearer, err := d.send(r)
	for retries := 0; err == nil && d.refused(resp) && retries < 2; retries++ {
		again, why := d.again(r, resp, bearer)
		if why != nil {
			return nil, why
		}
		resp, bearer, err = d.send(again)
	}
	if err != nil {
		return nil, err
	}
	if d.refused(resp) {
		return nil, d.refuse(r, resp, bearer)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		resp.Body = &limited{ReadCloser: resp.Body, left: d.limit}
	}
	return resp, nil
}

func (d *door) refused(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

// send sends the request once. bearer is the token that went with it.
func (d *door) send(r *http.Request) (resp *http.Response, bearer string, err error) {
	sent := r.Clone(r.Context())
	for _, name := range slices.Sorted(maps.Keys(d.server.Headers)) {
		value, err := lookUp(d.server.Headers[name], d.getenv)
		if err != nil {
			return nil, "", &authError{reason: "header " + name + ": " + err.Error()}
		}
		sent.Header.Set(name, value)
	}
	if bearer, err = d.bearer(r.Context()); err != nil {
		return nil, "", err
	}
	if bearer != "" {
		sent.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err = d.base.RoundTrip(sent)
	return resp, bearer, err //nolint:wrapcheck // the HTTP client says more
}

// bearer is the token that counts now: what was brought, what a handler has, what the
// reference stands for.
func (d *door) bearer(ctx context.Context) (string, error) {
	d.mu.Lock()
	token, handler := d.token, d.handler
	d.mu.Unlock()
	if token != "" {
		return token, nil
	}
	if handler != nil {
		source, err := handler.TokenSource(ctx)
		if err != nil {
			return "", &authError{reason: err.Error()}
		}
		if source != nil {
			if t, err := source.Token(); err == nil {
				return t.AccessToken, nil
			}
			return "", nil // what it has is no good any more: the server will say so
		}
	}
	if d.server.Token == "" {
		return "", nil
	}
	token, err := lookUp(d.server.Token, d.getenv)
	if err != nil {
		return "", &authError{reason: "token: " + err.Error()}
	}
	return token, nil
}

// again returns the request to be sent once more, if there is a better token by now,
// or one can be had without a person.
func (d *door) again(r *http.Request, resp *http.Response, bearer string) (*http.Request, error) {
	d.mu.Lock()
	if d.token == bearer {
		d.token = "" // it is spent
	}
	d.mu.Unlock()
	now, err := d.bearer(r.Context())
	if err != nil {
		discard(resp)
		return nil, err
	}
	switch own := d.server.OAuth; {
	case resp.StatusCode == http.StatusUnauthorized && now != "" && now != bearer:
		discard(resp)
	case own != nil && (resp.StatusCode == http.StatusUnauthorized || stepUp(resp)):
		if err := own.Authorize(context.WithoutCancel(r.Context()), r, resp); err != nil {
			return nil, &authError{status: resp.StatusCode, challenges: challenges(resp), reason: err.Error()}
		}
	default:
		return nil, d.refuse(r, resp, bearer)
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, fmt.Errorf("send again: %w", err)
		}
	}
	return again, nil
}

// refuse remembers what was refused and says so.
func (d *door) refuse(r *http.Request, resp *http.Response, bearer string) error {
	defer discard(resp)
	if resp.StatusCode == http.StatusForbidden && !stepUp(resp) {
		return errForbidden
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token == bearer {
		d.token = ""
	}
	d.request = r.Clone(context.WithoutCancel(r.Context()))
	d.request.Body = http.NoBody
	d.refusal = &http.Response{
		Status: resp.Status, StatusCode: resp.StatusCode, Proto: resp.Proto, Header: resp.Header.Clone(), Request: d.request,
	}
	return &authError{status: resp.StatusCode, challenges: challenges(resp)}
}

// resolve takes the answer to a refusal.
func (d *door) resolve(ctx context.Context, r Resolution) error {
	switch {
	case d == nil:
		return errors.New("it is a program, which gets its credentials by its environment")
	case r.Cancelled:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.request, d.refusal = nil, nil
		return nil
	case (r.Token == "") == (r.Handler == nil):
		return errors.New("give either a token or a handler, or cancel")
	case r.Token != "":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.token = r.Token
		return nil
	}
	d.mu.Lock()
	request, refusal := d.request, d.refusal
	d.mu.Unlock()
	if request != nil {
		copied := *refusal
		copied.Body = http.NoBody
		// What the handler makes may hold on to its context, beyond this call.
		lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		if err := r.Handler.Authorize(lasting, request, &copied); err != nil {
			cancel()
			return err //nolint:wrapcheck // ResolveAuth wraps it
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler, d.token = r.Handler, ""
	return nil
}

// stepUp reports whether a 403 asks for more authorization.
func stepUp(resp *http.Response) bool {
	return slices.ContainsFunc(challenges(resp), func(c oauthex.Challenge) bool { return c.Params["error"] == "insufficient_scope" })
}

func challenges(resp *http.Response) []oauthex.Challenge {
	cs, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return nil
	}
	return cs
}

// discard makes the connection of a response fit for another one.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
}

// limited bounds a body.
type limited struct {
	io.ReadCloser
	left int
}

// Read reads what there is room for.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.ReadCloser.Read(one[:]); n == 0 {
			return 0, err //nolint:wrapcheck // as it came
		}
		return 0, errTooLarge
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err //nolint:wrapcheck // as it came
}

var (
	errForbidden = errors.New("the server forbids it (403)")
	errTooLarge  = errors.New("the answer is too large")
)

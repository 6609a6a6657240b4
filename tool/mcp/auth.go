package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/turnlog/turnlog/tool"
)

// Resolution answers a server's demand for authorization: with a token, with a handler that gets one,
// or by cancelling.
type Resolution struct {
	Token     string            // a bearer token
	Handler   auth.OAuthHandler // from the SDK; it may send a person to a browser and wait
	Cancelled bool              // calls continue to fail
}

var errForbidden = errors.New("the server forbids it (403)")

// authTransport adds credentials and headers to each request to a server, and records
// what the server refuses without them.
type authTransport struct {
	server Server
	origin string // requests go nowhere else
	getenv func(string) string
	limit  int
	base   *http.Transport

	answers atomic.Int64 // answers to the server's requests that are being sent

	mu      sync.Mutex
	token   string            // from ResolveAuth, until it is refused
	handler auth.OAuthHandler // may be nil
	refusal *http.Response    // the last one, for the handler; nil once another token is accepted
	refused string            // the token of the refused request
}

// newAuthTransport returns nil for a command.
func newAuthTransport(s Server, all Config) *authTransport {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil {
		return nil
	}
	return &authTransport{
		server: s, origin: u.Scheme + "://" + u.Host, getenv: all.Getenv, limit: all.maxMessage, handler: s.OAuth,
		base: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		},
	}
}

// maxRetries is how often a refused request is sent again.
const maxRetries = 2

// RoundTrip sends a request with credentials. If the server refuses them it retries with
// better ones that need no person.
func (a *authTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if to := r.URL.Scheme + "://" + r.URL.Host; to != a.origin {
		return nil, fmt.Errorf("the server redirects to %s, which may be an internal host: if you trust it, use its URL", to)
	}
	for retries := 0; ; retries++ {
		resp, bearer, err := a.send(r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			a.accepted(bearer)
			return a.limited(resp), nil
		}
		if err := a.renew(r, resp, bearer, retries < maxRetries); err != nil {
			return nil, err
		}
	}
}

// sender sends the requests of one connection.
type sender struct {
	*authTransport
	closing <-chan struct{} // closed when the connection is
}

// RoundTrip sends a request. The end of a session waits for the answers to the server's own requests, which the
// server may never read: they have a time limit, and end with the connection.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	if !answers(r) {
		return s.authTransport.RoundTrip(r)
	}
	defer s.answers.Add(-1)
	if s.answers.Add(1) > maxAnswers {
		return nil, errAsksTooMuch // the SDK forgets the request
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.authTransport.RoundTrip(r.WithContext(ctx))
}

// answers reports whether a request to the server is an answer to one of its own.
func answers(r *http.Request) bool {
	if r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	var message struct{ Method string }
	return err == nil && json.NewDecoder(body).Decode(&message) == nil && message.Method == ""
}

// limited limits a response that the SDK reads as a whole. It limits events itself.
func (a *authTransport) limited(resp *http.Response) *http.Response {
	events := resp.StatusCode < http.StatusMultipleChoices && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	if !events {
		resp.Body = http.MaxBytesReader(nil, resp.Body, int64(a.limit))
	}
	resp.Body = &counted{ReadCloser: resp.Body, values: values{events: events}}
	return resp
}

// accepted forgets the refusal of another token.
func (a *authTransport) accepted(bearer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused != bearer {
		a.refusal = nil
	}
}

// send sends the request once, with the token that it returns.
func (a *authTransport) send(r *http.Request) (resp *http.Response, bearer string, err error) {
	sent := r.Clone(r.Context())
	if r.GetBody != nil {
		if sent.Body, err = r.GetBody(); err != nil {
			return nil, "", fmt.Errorf("send: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.server.Headers)) {
		value, err := tool.ResolveReference(a.server.Headers[name], a.getenv)
		if err != nil {
			return nil, "", &authError{reason: "header " + name + ": " + err.Error()}
		}
		sent.Header.Set(name, value)
	}
	if bearer, err = a.bearer(r.Context()); err != nil {
		return nil, "", err
	}
	if bearer != "" {
		sent.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err = a.base.RoundTrip(sent)
	return resp, bearer, err //nolint:wrapcheck // the HTTP client says more
}

// bearer returns the current token: the one from ResolveAuth, the handler's, or the
// reference's.
func (a *authTransport) bearer(ctx context.Context) (string, error) {
	a.mu.Lock()
	token, handler := a.token, a.handler
	a.mu.Unlock()
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
			return "", nil // the token has expired, which the server reports
		}
	}
	if a.server.Token == "" {
		return "", nil
	}
	token, err := tool.ResolveReference(a.server.Token, a.getenv)
	if err != nil {
		return "", &authError{reason: "token: " + err.Error()}
	}
	return token, nil
}

// renew gets a better token than the refused one, if there is one now or one can be had
// without a person. Otherwise it records the refusal and returns the error.
func (a *authTransport) renew(r *http.Request, resp *http.Response, bearer string, retry bool) error {
	defer func() { // drains the body, so that the connection can be reused
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		_ = resp.Body.Close()
	}()
	challenges, _ := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate")) // an invalid one is ignored
	if resp.StatusCode == http.StatusForbidden && !slices.ContainsFunc(challenges, func(c oauthex.Challenge) bool {
		return c.Params["error"] == "insufficient_scope"
	}) {
		return errForbidden
	}
	refused := &authError{status: resp.StatusCode, challenges: challenges}
	a.mu.Lock()
	if a.token == bearer {
		a.token = ""
	}
	again := r.Clone(context.WithoutCancel(r.Context()))
	again.Body = http.NoBody
	a.refused, a.refusal = bearer, &http.Response{
		Status: resp.Status, StatusCode: resp.StatusCode, Proto: resp.Proto, Header: resp.Header.Clone(), Body: http.NoBody, Request: again,
	}
	a.mu.Unlock()
	if !retry {
		return refused
	}
	now, err := a.bearer(r.Context())
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusUnauthorized && now != "" && now != bearer:
		return nil
	case a.server.OAuth == nil:
		return refused
	}
	if err := a.server.OAuth.Authorize(context.WithoutCancel(r.Context()), r, resp); err != nil {
		refused.reason = err.Error()
		return refused
	}
	return nil
}

// resolve uses the answer to a refusal.
func (a *authTransport) resolve(ctx context.Context, r Resolution) error {
	switch {
	case a == nil:
		return errors.New("a program gets its credentials in its environment")
	case !r.Cancelled && (r.Token == "") == (r.Handler == nil):
		return errors.New("give either a token or a handler, or cancel")
	}
	a.mu.Lock()
	refusal := a.refusal
	a.mu.Unlock()
	if !r.Cancelled && r.Handler != nil && refusal != nil {
		// The handler's token source may keep this context beyond the call.
		lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		if err := r.Handler.Authorize(lasting, refusal.Request, refusal); err != nil {
			cancel()
			return err //nolint:wrapcheck // ResolveAuth wraps it
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r.Cancelled:
		a.refusal = nil
	case r.Token != "":
		a.token = r.Token
	default:
		a.handler, a.token = r.Handler, ""
	}
	return nil
}

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// silentError is returned when a provider sends nothing for too long.
type silentError struct{ After time.Duration }

// Error says how long the provider was silent.
func (e *silentError) Error() string {
	return fmt.Sprintf("the provider sent nothing for %s", e.After)
}

// Timeout makes the error a net.Error that is a timeout.
func (e *silentError) Timeout() bool { return true }

// Temporary completes net.Error: another attempt may succeed.
func (e *silentError) Temporary() bool { return true }

// transport ends an exchange with a *silentError if no byte arrives for some time,
// before the header or within the body. A stream that keeps sending may take any
// time.
type transport struct {
	base    http.RoundTripper
	silence time.Duration // zero or less: no limit
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.silence <= 0 {
		return t.base.RoundTrip(req) //nolint:wrapcheck // nothing to add
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{silence: t.silence, cancel: cancel}
	w.timer = time.AfterFunc(t.silence, func() { cancel(&silentError{After: t.silence}) })
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		w.stop()
		return nil, silent(ctx, err)
	}
	w.timer.Reset(t.silence)
	resp.Body = &watchedBody{ReadCloser: resp.Body, ctx: ctx, watch: w}
	return resp, nil
}

// watch is the silence timer of one exchange.
type watch struct {
	silence time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// watchedBody restarts the timer at each read.
type watchedBody struct {
	io.ReadCloser

	ctx   context.Context //nolint:containedctx // the context of the exchange
	watch *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.timer.Reset(b.watch.silence)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err //nolint:wrapcheck // io.Reader's own protocol
	}
	return n, silent(b.ctx, err)
}

func (b *watchedBody) Close() error {
	b.watch.stop()
	return b.ReadCloser.Close() //nolint:wrapcheck // nothing to add
}

// silent returns the silentError that ended the exchange, otherwise err.
func silent(ctx context.Context, err error) error {
	if s, ok := errors.AsType[*silentError](context.Cause(ctx)); ok {
		return s
	}
	return err
}

// redirectError is returned when a provider redirects a request. Configure the
// target address instead.
type redirectError struct{ Host string }

// Error names the host of the redirect.
func (e *redirectError) Error() string {
	return fmt.Sprintf("redirected to %s, which is not followed", e.Host)
}

// newClient returns a copy of base (nil: a zero client) that ends silent exchanges. It
// follows no redirects, because the API key would go to any host that the response
// names.
func newClient(base *http.Client, silence time.Duration) *http.Client {
	c := http.Client{}
	if base != nil {
		c = *base
	}
	c.Transport = &transport{base: cmp.Or(c.Transport, http.DefaultTransport), silence: silence}
	c.CheckRedirect = func(req *http.Request, _ []*http.Request) error { return &redirectError{Host: req.URL.Host} }
	return &c
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// SilentError is what ends an exchange in which nothing came for too long.
type SilentError struct{ After time.Duration }

// Error says for how long nothing came.
func (e *SilentError) Error() string {
	return fmt.Sprintf("the provider sent nothing for %s", e.After)
}

// Timeout reports that it is one, as a net.Error does.
func (e *SilentError) Timeout() bool { return true }

// Temporary reports that another attempt may do better, as a net.Error does.
func (e *SilentError) Temporary() bool { return true }

// Transport ends an exchange in which no byte came for Silence, at its head or
// between the pieces of its body, with a *SilentError. A stream that goes on may
// take as long as it wants.
type Transport struct {
	Base    http.RoundTripper // nil: http.DefaultTransport
	Silence time.Duration     // zero: forever
}

// RoundTrip makes the exchange.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if t.Silence <= 0 {
		return base.RoundTrip(req) //nolint:wrapcheck // nothing to add
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{silence: t.Silence, cancel: cancel}
	w.timer = time.AfterFunc(t.Silence, func() { cancel(&SilentError{After: t.Silence}) })
	resp, err := base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		w.stop()
		return nil, silent(ctx, err)
	}
	w.timer.Reset(t.Silence)
	resp.Body = &watchedBody{ReadCloser: resp.Body, ctx: ctx, watch: w}
	return resp, nil
}

// watch is the patience with one exchange.
type watch struct {
	silence time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// watchedBody renews the patience with each piece.
type watchedBody struct {
	io.ReadCloser

	ctx   context.Context //nolint:containedctx // of the one exchange that this body belongs to
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

// silent returns the SilentError that ended the exchange, if one did.
func silent(ctx context.Context, err error) error {
	if s, ok := errors.AsType[*SilentError](context.Cause(ctx)); ok {
		return s
	}
	return err
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// SilentError is returned when a provider sends nothing for too long.
type SilentError struct{ After time.Duration }

// Error says how long the provider was silent.
func (e *SilentError) Error() string {
	return fmt.Sprintf("the provider sent nothing for %s", e.After)
}

// Timeout makes the error a net.Error that is a timeout.
func (e *SilentError) Timeout() bool { return true }

// Temporary completes net.Error: another attempt may succeed.
func (e *SilentError) Temporary() bool { return true }

// Transport ends an exchange with a *SilentError if no byte arrives for Silence,
// before the header or within the body. A stream that keeps sending may take any
// time.
type Transport struct {
	Base    http.RoundTripper // nil: http.DefaultTransport
	Silence time.Duration     // zero: no limit
}

// RoundTrip implements http.RoundTripper.
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

// silent returns the SilentError that ended the exchange, otherwise err.
func silent(ctx context.Context, err error) error {
	if s, ok := errors.AsType[*SilentError](context.Cause(ctx)); ok {
		return s
	}
	return err
}

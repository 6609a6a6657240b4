package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/turnlog/turnlog/internal/provider"
)

// exchange is what the SDK does not report about an HTTP exchange. It is owned by
// the goroutine of the call, which also reads the body.
type exchange struct {
	status     int // 0: no response
	retryAfter time.Duration
	broken     error // the error that ended the body
}

type exchangeKey struct{}

// in returns a context through which the transport finds the exchange.
func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// observer is a transport that fills in an exchange. It hides errors of the body,
// because the SDK would print them to the process's log.
type observer struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper adds nothing
	}
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return resp, nil
	}
	x.status = resp.StatusCode
	x.retryAfter = provider.RetryAfter(resp.Header, time.Now())
	resp.Body = &observedBody{ReadCloser: resp.Body, exchange: x}
	return resp, nil
}

type observedBody struct {
	io.ReadCloser

	exchange *exchange
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.exchange.broken = err
		err = io.EOF
	}
	return n, err
}

func (b *observedBody) Close() error {
	_ = b.ReadCloser.Close() // nothing more is read
	return nil
}

package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/turnlog/turnlog/internal/provider"
)

// notes are what the client does not tell of an exchange. They belong to the
// goroutine of the call, which is the one that reads the body.
type notes struct {
	status     int // of HTTP; zero if there was no answer
	retryAfter time.Duration
	broken     error // how the body broke off
}

type notesKey struct{}

// in returns a context by which the transport finds the notes, as httptrace does.
func (n *notes) in(ctx context.Context) context.Context { return context.WithValue(ctx, notesKey{}, n) }

// noting takes notes of exchanges. It ends a body that broke off as if it were
// whole: the client would print the error to the process's log.
type noting struct{ base http.RoundTripper }

// RoundTrip makes the exchange.
func (t *noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err //nolint:wrapcheck // a RoundTripper adds nothing
	}
	n, ok := req.Context().Value(notesKey{}).(*notes)
	if !ok {
		return resp, nil
	}
	n.status = resp.StatusCode
	n.retryAfter = provider.RetryAfter(resp.Header, time.Now())
	resp.Body = &notedBody{ReadCloser: resp.Body, notes: n}
	return resp, nil
}

type notedBody struct {
	io.ReadCloser

	notes *notes
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.notes.broken = err
		err = io.EOF
	}
	return n, err
}

func (b *notedBody) Close() error {
	_ = b.ReadCloser.Close() // the answer has been read, or is not wanted
	return nil
}

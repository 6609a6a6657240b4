package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// Handler builds a reply from the events of a response. It is owned by the goroutine
// of the call.
type Handler interface {
	// Event handles an event, which may have a name, and reports whether it completes
	// the response.
	Event(name string, data []byte) (complete bool, err error)
	// Complete reports whether a response that ended without a completing event is
	// complete.
	Complete() bool
}

// StatusError is returned for a response with an error status. The adapter translates
// it.
type StatusError struct {
	Status     int
	RetryAfter time.Duration
	Body       []byte // at most its first 64 KiB
}

// Error returns the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
}

// maxErrorBody limits how much of an error response is read.
const maxErrorBody = 64 << 10

// Stream posts a JSON request and passes the server-sent events of the response to h.
// The whole response of a server that does not stream is one event.
func Stream(ctx context.Context, client *http.Client, url string, header http.Header, request any, h Handler) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(request); err != nil {
		return Invalid("request", "%v", err)
	}
	body.Truncate(body.Len() - 1) // the newline
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &body)
	if err != nil {
		return Invalid("request", "%v", err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "turnlog")
	resp, err := client.Do(req)
	if err != nil {
		return err //nolint:wrapcheck // Failure translates it
	}
	defer resp.Body.Close() //nolint:errcheck // nothing more is read
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // part of it is better than nothing
		return &StatusError{Status: resp.StatusCode, RetryAfter: RetryAfter(resp.Header, time.Now()), Body: text}
	}
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media {
	case "application/json":
		return readWhole(resp.Body, h)
	case "text/html":
		return Invalid("not_an_api", "%s is a web page: is the base URL that of the API?", req.URL.Redacted())
	}
	return readEvents(ssestream.NewDecoder(resp), h)
}

func readEvents(events ssestream.Decoder, h Handler) error {
	for events.Next() {
		e := events.Event()
		if complete, err := h.Event(e.Type, bytes.TrimSpace(e.Data)); err != nil || complete {
			return err
		}
	}
	switch err := events.Err(); {
	case h.Complete():
		return nil
	case err != nil:
		return err //nolint:wrapcheck // Failure translates it
	}
	return &model.Error{Class: content.ClassNetwork, Code: "incomplete", Message: "the response ended before the reply was complete"}
}

func readWhole(r io.Reader, h Handler) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err //nolint:wrapcheck // Failure translates it
	}
	complete, err := h.Event("", body)
	if err == nil && !complete && !h.Complete() {
		return Malformed("the response is incomplete", body)
	}
	return err
}

// Malformed returns the error of a response that breaks the protocol.
func Malformed(what string, data []byte) *model.Error {
	return &model.Error{
		Class: content.ClassServer, Code: "malformed_stream", Message: what + ": " + string(bytes.TrimSpace(data)),
	}
}

package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// stream builds a reply from events. It is owned by the goroutine of the call.
type stream interface {
	// event handles an event, which may have a name, and reports whether it
	// completes the response.
	event(name string, data []byte) (complete bool, err error)
	// end reports whether a stream that ended without a completing event is
	// complete.
	end() bool
	// finish returns the reply.
	finish() (model.Reply, error)
	// used returns the usage so far.
	used() content.Usage
}

// exchange makes one request.
func (m *Model) exchange(ctx context.Context, path string, params any, s stream) (model.Reply, error) {
	var resp *http.Response
	err := m.client.Post(ctx, path, params, &resp)
	if resp != nil {
		defer resp.Body.Close() //nolint:errcheck // nothing more is read
	}
	var reply model.Reply
	switch {
	case resp != nil && resp.StatusCode >= http.StatusMultipleChoices:
		err = statusError(resp)
	case err == nil:
		if err = m.listen(resp, s); err == nil {
			reply, err = s.finish()
		}
	default:
		if _, sent := errors.AsType[*url.Error](err); !sent {
			err = provider.Invalid("request", "%v", err)
		}
	}
	if err != nil {
		return model.Reply{}, provider.Failure(ctx, err, s.used(), m.cfg.APIKey)
	}
	return reply, nil
}

// listen reads the stream to its end.
func (m *Model) listen(resp *http.Response, s stream) error {
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media {
	case "application/json":
		return readWhole(resp, s)
	case "text/html":
		return provider.Invalid("not_an_api", "the server answered with a web page: is %s the base URL of its API?", m.cfg.BaseURL)
	}
	events := ssestream.NewDecoder(resp)
	for events.Next() {
		complete, err := s.event(events.Event().Type, events.Event().Data)
		if err != nil || complete {
			return err
		}
	}
	if s.end() {
		return nil
	}
	if err := events.Err(); err != nil {
		return err //nolint:wrapcheck // Failure translates it
	}
	return io.ErrUnexpectedEOF
}

// readWhole reads the response of a server that does not stream.
func readWhole(resp *http.Response, s stream) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err //nolint:wrapcheck // Failure translates it
	}
	complete, err := s.event("", body)
	switch {
	case err != nil:
		return err
	case complete || s.end():
		return nil
	}
	return malformed("the response is incomplete", body)
}

// lenient decodes a JSON object and ignores fields of an unexpected type, because
// servers differ and few fields matter.
func lenient(data []byte, into any) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return false
	}
	err := json.Unmarshal(data, into)
	_, odd := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || odd
}

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

// stream makes a reply of events. It is owned by the goroutine of its call.
type stream interface {
	// event takes the next one, with its name if it has one, and says whether the
	// answer is whole with it.
	event(name string, data []byte) (whole bool, err error)
	// end is called when nothing comes any more without the answer having been said
	// to be whole; it reports whether it is all the same.
	end() bool
	// finish returns the reply.
	finish() (model.Reply, error)
}

// exchange asks once.
func (m *Model) exchange(ctx context.Context, path string, params any, s stream) (model.Reply, error) {
	var resp *http.Response
	err := m.client.Post(ctx, path, params, &resp)
	if resp != nil {
		defer resp.Body.Close() //nolint:errcheck // it has been read as far as it counts
	}
	switch {
	case resp != nil && resp.StatusCode >= http.StatusMultipleChoices:
		return model.Reply{}, m.refused(resp)
	case err != nil:
		return model.Reply{}, m.unsent(ctx, err)
	}
	if err := m.listen(ctx, resp, s); err != nil {
		return model.Reply{}, err
	}
	return s.finish()
}

// listen reads the stream to its end.
func (m *Model) listen(ctx context.Context, resp *http.Response, s stream) error {
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media { // if it cannot be read, it is none of these
	case "application/json":
		return m.whole(ctx, resp, s)
	case "text/html":
		return &model.Error{
			Class: content.ClassInvalid, Code: "not_an_api",
			Message: "the server answered with a page for people: is " + m.cfg.BaseURL + " the base URL of its API?",
		}
	}
	events := ssestream.NewDecoder(resp)
	for events.Next() {
		whole, err := s.event(events.Event().Type, events.Event().Data)
		if err != nil || whole {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.end() {
		return nil
	}
	if err := events.Err(); err != nil {
		return m.broken(ctx, err)
	}
	return m.broken(ctx, io.ErrUnexpectedEOF)
}

// whole takes the answer of a server that does not stream.
func (m *Model) whole(ctx context.Context, resp *http.Response, s stream) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return m.broken(ctx, err)
	}
	whole, err := s.event("", body)
	switch {
	case err != nil:
		return err
	case whole || s.end():
		return nil
	}
	return m.malformed("the answer is not one", body)
}

// lenient reads the JSON object of an event. A field that has another type than it
// should is left out: servers differ, new events come, and few fields count.
func lenient(data []byte, into any) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return false
	}
	err := json.Unmarshal(data, into)
	_, odd := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || odd
}

// unsent says why there is no response: trouble on the way, or a request that
// could not be written at all.
func (m *Model) unsent(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok || ctx.Err() != nil {
		return m.broken(ctx, err)
	}
	return &model.Error{Class: content.ClassInvalid, Code: "request", Message: m.scrub(err.Error())}
}

// broken is provider.Broken without the key.
func (m *Model) broken(ctx context.Context, err error) error {
	err = provider.Broken(ctx, err)
	if e, ok := err.(*model.Error); ok { //nolint:errorlint // it is what Broken made, not what it may wrap
		e.Message = m.scrub(e.Message)
	}
	return err
}

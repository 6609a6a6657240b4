package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tmaxmax/go-sse"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// Handler reads the events of a response into a [Reply]. It is owned by the goroutine
// of the call.
type Handler interface {
	// Event handles an event, which may have a name, and reports whether it is the last
	// one. An error that is not a *model.Error means that the event is malformed.
	Event(name string, data []byte) (last bool, err error)
	// Reason returns why the reply ended. It is called after the last event, and returns
	// "" if the response is not complete.
	Reason() (content.FinishReason, error)
}

// StatusError is a response with an error status. The adapter translates it.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte // at most its first 64 KiB
}

// Error returns the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
}

// maxReply limits the bytes of a reply, or of a response that is not streamed. The longest replies of
// models reach about one percent of it.
const maxReply = 64 << 20

// endless returns the error of a reply that exceeds maxReply.
func endless() error {
	return &model.Error{
		Class: content.ClassServer, Code: "too_large", Message: fmt.Sprintf("the reply is larger than %d MiB", maxReply>>20),
	}
}

// maxErrorBody limits how much of an error response is read.
const maxErrorBody = 64 << 10

// maxEvent limits the bytes of one event of a response.
const maxEvent = 32 << 20

func readEvents(r io.Reader, h Handler) (content.FinishReason, error) {
	var broken error
	for e, err := range sse.Read(r, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			broken = err
			break
		}
		data := strings.TrimSpace(e.Data)
		if data == "" { // it only keeps the connection alive
			continue
		}
		last, err := h.Event(e.Type, []byte(data))
		if err != nil {
			return "", malformed(err)
		}
		if last {
			break
		}
	}
	reason, err := h.Reason()
	switch {
	case err != nil || reason != "":
		return reason, err
	case broken != nil:
		return "", broken // failure translates it
	}
	return "", &model.Error{Class: content.ClassNetwork, Code: "incomplete", Message: "the response ended before the reply was complete"}
}

func readWhole(r io.Reader, h Handler) (content.FinishReason, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxReply+1))
	if err != nil {
		return "", err //nolint:wrapcheck // failure translates it
	}
	if len(body) > maxReply {
		return "", endless()
	}
	if _, err := h.Event("", body); err != nil {
		return "", malformed(err)
	}
	reason, err := h.Reason()
	if err == nil && reason == "" {
		err = Malformed("the response is incomplete", body)
	}
	return reason, err
}

// Malformed returns the error of a response that breaks the protocol.
func Malformed(what string, data []byte) *model.Error {
	return &model.Error{
		Class: content.ClassServer, Code: "malformed_stream", Message: what + ": " + string(bytes.TrimSpace(data)),
	}
}

// malformed returns the error of a handler as a *model.Error.
func malformed(err error) error {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e
	}
	return &model.Error{Class: content.ClassServer, Code: "malformed", Message: "malformed response: " + err.Error()}
}

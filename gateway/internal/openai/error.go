package openai

import (
	"encoding/json"
	"net/http"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Error is an error in the format that OpenAI's clients expect.
type Error struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code"`
}

// NewError returns an error. The status determines its type.
func NewError(status int, code, param, message string) *Error {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusUnauthorized:
		kind = "authentication_error"
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status == http.StatusForbidden:
		kind = "permission_error"
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	return &Error{status, message, kind, param, code}
}

// Error returns what was wrong.
func (e *Error) Error() string { return e.Message }

// Write writes the error as a response. OpenAI's clients retry some statuses automatically. A retry does not resolve a
// conflict, so Write tells them not to retry it.
func (e *Error) Write(w http.ResponseWriter) {
	if e.Status == http.StatusConflict {
		w.Header().Set("X-Should-Retry", "false")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]*Error{"error": e}) // the client may be gone
}

func bad(param, message string) *Error {
	return NewError(http.StatusBadRequest, "invalid_value", param, param+": "+message)
}

// deleted is the error code of a response whose session was deleted before the response was complete.
const deleted = "deleted"

// deletedBy reports whether an event deletes the session, and returns a message that says who deleted it.
func deletedBy(ev stream.Event) (what string, gone bool) {
	if ev.Entry == nil {
		return "", false
	}
	d, gone := events.DeletionOf(ev.Entry.Entry)
	return "the session was deleted: " + d.String(), gone
}

// Package problem has the errors of a gateway as RFC 9457 describes them: each with a code that clients may branch on, what
// was wrong, and what to do about it.
//
// [Of] makes problems of the errors of the packages below, so that no path of the gateway has words of its own for them.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
)

// Problem is an error as RFC 9457 describes it, with what to do about it.
type Problem struct { //nolint:errname // the name that RFC 9457 gives it
	Type   string              `json:"type" doc:"names the kind of problem: urn:turnlog:problem: and a code that clients may branch on"`
	Title  string              `json:"title" doc:"the status in words"`
	Status int                 `json:"status"`
	Detail string              `json:"detail" doc:"what was wrong"`
	Do     string              `json:"do" doc:"what to do"`
	Errors []*huma.ErrorDetail `json:"errors,omitempty" doc:"each place in the request that was wrong"`

	Retry int `json:"-"` // seconds until a retry may help; 0: unknown
}

// problemType begins the type of every problem.
const problemType = "urn:turnlog:problem:"

// New returns a problem with a code.
func New(status int, code, detail, do string) *Problem {
	return &Problem{Type: problemType + code, Title: http.StatusText(status), Status: status, Detail: detail, Do: do}
}

// Code returns the code in the type.
func (p *Problem) Code() string { return strings.TrimPrefix(p.Type, problemType) }

// Error returns what was wrong.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns that of problem details.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers of the response.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.Retry))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="turnlog"`)
	}
	return h
}

// Write writes the problem as a response.
func (p *Problem) Write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// Is reports whether an error is a problem with a status.
func Is(err error, status int) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == status
}

// NoSession says that a person sees no session with an ID.
func NoSession(id content.SessionID) *Problem {
	return New(http.StatusNotFound, "no_session", "there is no session "+strconv.Quote(string(id))+" that you may see",
		"check the ID: GET /api/sessions lists yours; POST /api/sessions opens one")
}

// MayNot says that a role does not permit something.
func MayNot(what string) *Problem {
	return New(http.StatusForbidden, "forbidden", "your role does not let you "+what,
		"ask an operator of this gateway: roles, and the agents that they are about, are in its file of people")
}

// NoNATS says that the gateway has no server.
func NoNATS() *Problem {
	p := New(http.StatusServiceUnavailable, "no_nats", "this gateway has no connection to NATS",
		"retry, with the same Idempotency-Key: the gateway reconnects by itself, and what was accepted is kept")
	p.Retry = 1
	return p
}

// Unprocessable says that a request cannot be done, whatever the session is.
func Unprocessable(code, detail, do string) *Problem {
	return New(http.StatusUnprocessableEntity, code, detail, do)
}

// Hopeless reports whether no session would accept a command that one refused with a reason.
func Hopeless(reason string) bool {
	switch reason {
	case commands.ReasonEmptyInput, commands.ReasonBadItem, commands.ReasonTooLarge, commands.ReasonInvalidInput,
		commands.ReasonInvalidCache, commands.ReasonBadTranscript, commands.ReasonUnknownAgent, commands.ReasonBadAgent:
		return true
	}
	return false
}

// Refusal returns the problem of a command that a session refused.
func Refusal(e *session.InvalidStateError) *Problem {
	detail := e.Detail
	if detail == "" {
		detail = e.Error()
	}
	if Hopeless(e.Reason) {
		return Unprocessable(e.Reason, detail, "correct the request and send it with a new Idempotency-Key")
	}
	do := "look at the session as it is now, GET /api/sessions/{id}, and decide again"
	switch e.Reason {
	case commands.ReasonBusy, commands.ReasonQueueFull:
		do = "wait for the turn's end, or send the input with on_busy steer, queue or interrupt"
	case commands.ReasonSessionExists:
		do = "choose another ID, or send input to the session that has this one"
	case commands.ReasonAlreadyDecided, commands.ReasonNoApproval, commands.ReasonExpired:
		do = "nothing: the first decision counts; GET /api/approvals lists what is still pending"
	case commands.ReasonClosed:
		do = "open another session: this one only can be read"
	case session.ReasonPassedOver:
		do = "read the session: the command had no effect, and the reason was lost on the way"
	}
	return New(http.StatusConflict, e.Reason, detail, do)
}

// Of returns the problem of an error from the packages below, or nil if it is none of theirs. connected says whether the
// gateway has a server: without one, errors about sessions mean nothing.
func Of(err error, connected bool) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if d, ok := errors.AsType[*session.DeletedError](err); ok {
		return Gone(d.Error())
	}
	if e, ok := errors.AsType[*session.InvalidStateError](err); ok {
		if e.Reason == commands.ReasonDeleted {
			return Gone(e.Detail)
		}
		return Refusal(e)
	}
	if r, ok := errors.AsType[*commands.Rejection](err); ok {
		return Refusal(&session.InvalidStateError{Reason: r.Reason, Detail: r.Detail})
	}
	if e, ok := errors.AsType[*events.SealedError](err); ok {
		return New(http.StatusConflict, "sealed", e.Error(), "the operator: start the gateway with --seal-key and the file that has the session's seal key")
	}
	switch {
	case errors.Is(err, client.ErrNoSealKey):
		return New(http.StatusConflict, "no_seal_key", err.Error(), "the operator: start the gateway with --seal-key")
	case errors.Is(err, client.ErrStoredFile):
		return New(http.StatusConflict, "stored_file", err.Error(), "put what matters into the text: the API takes only stored files")
	case !connected:
		return NoNATS()
	case errors.Is(err, session.ErrNotFound):
		return New(http.StatusNotFound, "no_session", err.Error(), "check the ID: GET /api/sessions lists yours")
	case errors.Is(err, content.ErrBadID):
		return New(http.StatusBadRequest, "bad_id", err.Error(), "use an ID that this API has returned")
	case errors.Is(err, session.ErrNoAnswer):
		p := New(http.StatusGatewayTimeout, "no_answer", err.Error(),
			"the command stays queued: retry with the same Idempotency-Key to learn its outcome, and check that a driver-node runs")
		p.Retry = 5
		return p
	case errors.Is(err, client.ErrForbidden):
		return New(http.StatusForbidden, "nats_forbidden", err.Error(), "the operator: run the gateway as a NATS user with the roles client and approver")
	case errors.Is(err, journal.ErrDamaged):
		return New(http.StatusInternalServerError, "damaged", err.Error(), "the operator: \"observer verify\" describes the damage; do not write to the session")
	case errors.Is(err, context.DeadlineExceeded):
		p := New(http.StatusGatewayTimeout, "timeout", err.Error(), "retry with the same Idempotency-Key")
		p.Retry = 1
		return p
	}
	return nil
}

// Internal returns the problem of an error that nothing else is known about.
func Internal(err error) *Problem {
	return New(http.StatusInternalServerError, "internal", err.Error(), "retry with the same Idempotency-Key; if it stays, the gateway's log and \"turnlog doctor\" say more")
}

// Gone says that a session was deleted, and how.
func Gone(why string) *Problem {
	return New(http.StatusGone, "deleted", why, "open another session: the ID of a deleted one cannot be used again")
}

// Advise makes a problem of what huma reports about a request.
func Advise(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := New(e.Status, "bad_request", e.Detail, "correct the request: /openapi.json says what is expected")
	if p.Errors = e.Errors; e.Status == http.StatusRequestEntityTooLarge {
		p.Type, p.Do = problemType+"too_large", "send less: store files with POST /api/files and refer to them"
	}
	return p, nil
}

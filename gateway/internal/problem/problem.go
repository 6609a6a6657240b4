// Package problem has the errors of a gateway in the format of RFC 9457. Each says what was wrong and what to do about
// it, and has a code that clients may branch on.
//
// [Of] turns the errors of lower packages into problems, so that the whole gateway describes them in the same way.
package problem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
)

// Problem is an error in the format of RFC 9457, with what to do about it.
type Problem struct { //nolint:errname // the name that RFC 9457 gives it
	Type   string              `json:"type" doc:"the kind of problem: urn:turnlog:problem: and a code that clients may branch on"`
	Title  string              `json:"title" doc:"the name of the status"`
	Status int                 `json:"status"`
	Detail string              `json:"detail" doc:"what was wrong"`
	Do     string              `json:"do" doc:"what to do"`
	Errors []*huma.ErrorDetail `json:"errors,omitempty" doc:"the invalid fields of the request"`

	Retry int `json:"-"` // seconds until a retry may help; 0: unknown
}

// problemType is the prefix of every problem type.
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

// ContentType returns the content type of problem details.
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

// NoSession returns the problem of a session that does not exist or that the person may not see.
func NoSession(id content.SessionID) *Problem {
	return New(http.StatusNotFound, "no_session", "there is no session "+strconv.Quote(string(id))+" that you may see",
		"check the ID: GET /api/sessions lists yours; POST /api/sessions opens one")
}

// MayNot returns the problem of a person whose role does not permit something.
func MayNot(what string) *Problem {
	return New(http.StatusForbidden, "forbidden", "your role does not let you "+what,
		"ask an operator of this gateway: its file of people sets roles and their agents")
}

// NoNATS returns the problem of a gateway without a connection to a server.
func NoNATS() *Problem {
	p := New(http.StatusServiceUnavailable, "no_nats", "this gateway has no connection to NATS",
		"retry with the same Idempotency-Key: the gateway reconnects by itself, and no accepted command is lost")
	p.Retry = 1
	return p
}

// Unprocessable returns the problem of a request that cannot succeed for any session.
func Unprocessable(code, detail, do string) *Problem {
	return New(http.StatusUnprocessableEntity, code, detail, do)
}

// KeyUsed returns the problem of a command whose ID another command already has. It had no effect.
func KeyUsed() *Problem {
	return Unprocessable("key_used", "the Idempotency-Key belongs to another command or person: nothing was done", "use a new key for each command; reuse it only to retry that command")
}

// Changed returns the problem of a decision about a question that has changed since.
func Changed() *Problem {
	return New(http.StatusConflict, commands.ReasonChanged, "the pending question has changed",
		"read it with GET /api/approvals/{id}/{approval} or an AG-UI run without resume, then decide again")
}

// TooMany returns the problem of a person over a request limit. wait is the time until the next request; 0: until an
// open one ends. The request had no effect.
func TooMany(wait time.Duration) *Problem {
	p := New(http.StatusTooManyRequests, "too_many_open", "you have too many open requests and streams", "close one, such as a stream that you no longer read")
	if wait > 0 {
		p = New(http.StatusTooManyRequests, "too_many_requests", "you send too many requests per second", "wait for the time in Retry-After, then send the request again")
	}
	p.Retry = max(1, int(math.Ceil(wait.Seconds())))
	return p
}

// Hopeless reports whether a command refused for this reason would be refused by every session.
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
	do := "read the session with GET /api/sessions/{id}, then decide again"
	switch e.Reason {
	case commands.ReasonBusy, commands.ReasonQueueFull:
		do = "wait for the turn's end, or send the input with on_busy steer, queue or interrupt"
	case commands.ReasonSessionExists:
		do = "choose another ID, or send input to the session that has this one"
	case commands.ReasonAlreadyDecided, commands.ReasonNoApproval, commands.ReasonExpired:
		do = "nothing: the first decision counts; GET /api/approvals lists what is still pending"
	case commands.ReasonClosed:
		do = "open another session: this one is read-only"
	case session.ReasonPassedOver:
		do = "read the session: the command had no effect, and its reason was lost"
	}
	return New(http.StatusConflict, e.Reason, detail, do)
}

// Of returns the problem of an error from lower packages, or nil for any other error. connected says whether the gateway
// is connected to a server: without one, errors about sessions mean nothing.
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
		return New(http.StatusConflict, "stored_file", err.Error(), "put the content into the text: the API takes only stored files")
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

// Internal returns the problem of an unknown error.
func Internal(err error) *Problem {
	return New(http.StatusInternalServerError, "internal", err.Error(), "retry with the same Idempotency-Key; if it fails again, see the gateway's log and \"turnlog doctor\"")
}

// Gone returns the problem of a deleted session. why says how it was deleted.
func Gone(why string) *Problem {
	return New(http.StatusGone, "deleted", why, "open another session: the ID of a deleted session cannot be reused")
}

// Described returns the description of any response that is a problem.
func Described() *huma.Response {
	of := &huma.MediaType{Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}
	return &huma.Response{Description: "what was wrong, and what to do", Content: map[string]*huma.MediaType{(*Problem)(nil).ContentType(""): of}}
}

// Requests lets [Advise] change the status of a response: a middleware for huma.
func Requests(ctx huma.Context, next func(huma.Context)) { next(&request{inner: ctx}) }

type inner = huma.Context

type request struct {
	inner
	status int // instead of huma's; 0: none
}

func (r *request) SetStatus(status int) { r.inner.SetStatus(cmp.Or(r.status, status)) }
func (r *request) Unwrap() huma.Context { return r.inner }

// Truncated returns the problem of a request whose body ended early or did not come in time.
func Truncated(status int, why string) *Problem {
	return New(status, "truncated", why, "send the request again, with the same Idempotency-Key")
}

// Advise turns what huma reports about a request into a problem. A body that ends early is an error of the server to huma.
func Advise(ctx huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	if e.Status == http.StatusRequestTimeout {
		return Truncated(e.Status, "the body did not arrive in time"), nil
	}
	if r, ok := ctx.(*request); ok && e.Status == http.StatusInternalServerError && e.Detail == "cannot read request body" {
		r.status = http.StatusBadRequest
		p := Truncated(r.status, "the body ended early")
		p.Errors = e.Errors
		return p, nil
	}
	p := New(e.Status, "bad_request", e.Detail, "correct the request: see /openapi.json")
	if p.Errors = e.Errors; e.Status == http.StatusRequestEntityTooLarge {
		p.Type, p.Do = problemType+"too_large", "send less: store files with POST /api/files and refer to them"
	}
	return p, nil
}

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/gateway/people"
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

	retry int // seconds until a retry may help; 0: unknown
}

// problemType begins the type of every problem.
const problemType = "urn:turnlog:problem:"

func problem(status int, code, detail, do string) *Problem {
	return &Problem{Type: problemType + code, Title: http.StatusText(status), Status: status, Detail: detail, Do: do}
}

// code returns the code in the type.
func (p *Problem) code() string { return strings.TrimPrefix(p.Type, problemType) }

// Error returns what was wrong.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns that of problem details.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers of the response.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retry))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="turnlog"`)
	}
	return h
}

// write writes the problem as a response.
func (p *Problem) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// isProblem reports whether an error is a problem with a status.
func isProblem(err error, status int) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == status
}

// Problems that several places report.

func noSession(id content.SessionID) *Problem {
	return problem(http.StatusNotFound, "no_session", "there is no session "+strconv.Quote(string(id))+" that you may see",
		"check the ID: GET /api/sessions lists yours; POST /api/sessions opens one")
}

func mayNot(what string) *Problem {
	return problem(http.StatusForbidden, "forbidden", "your role does not let you "+what,
		"ask an operator of this gateway: roles, and the agents that they are about, are in its file of people")
}

// gone says why a session is deleted to those who see all sessions: whose it was is gone with it.
func gone(ctx context.Context, why string) *Problem {
	if !person(ctx).MaySee(people.Subject{}) {
		why = "the session was deleted"
	}
	return problem(http.StatusGone, "deleted", why, "open another session: the ID of a deleted one cannot be used again")
}

func noNATS() *Problem {
	p := problem(http.StatusServiceUnavailable, "no_nats", "this gateway has no connection to NATS",
		"retry, with the same Idempotency-Key: the gateway reconnects by itself, and what was accepted is kept")
	p.retry = 1
	return p
}

func unprocessable(code, detail, do string) *Problem {
	return problem(http.StatusUnprocessableEntity, code, detail, do)
}

// badReasons are the rejections of commands that no session would accept.
func badReason(reason string) bool {
	switch reason {
	case commands.ReasonEmptyInput, commands.ReasonBadItem, commands.ReasonTooLarge, commands.ReasonInvalidInput,
		commands.ReasonInvalidCache, commands.ReasonBadTranscript, commands.ReasonUnknownAgent, commands.ReasonBadAgent:
		return true
	}
	return false
}

// refusal returns the problem of a command that a session refused.
func refusal(e *session.InvalidStateError) *Problem {
	detail := e.Detail
	if detail == "" {
		detail = e.Error()
	}
	if badReason(e.Reason) {
		return unprocessable(e.Reason, detail, "correct the request and send it with a new Idempotency-Key")
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
	return problem(http.StatusConflict, e.Reason, detail, do)
}

// problemOf returns the problem of an error from the packages below.
func (g *Gateway) problemOf(ctx context.Context, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if d, ok := errors.AsType[*session.DeletedError](err); ok {
		return gone(ctx, d.Error())
	}
	if e, ok := errors.AsType[*session.InvalidStateError](err); ok {
		if e.Reason == commands.ReasonDeleted {
			return gone(ctx, e.Detail)
		}
		return refusal(e)
	}
	if r, ok := errors.AsType[*commands.Rejection](err); ok {
		return refusal(&session.InvalidStateError{Reason: r.Reason, Detail: r.Detail})
	}
	if e, ok := errors.AsType[*events.SealedError](err); ok {
		return problem(http.StatusConflict, "sealed", e.Error(), "the operator: start the gateway with --seal-key and the file that has the session's seal key")
	}
	switch {
	case errors.Is(err, client.ErrNoSealKey):
		return problem(http.StatusConflict, "no_seal_key", err.Error(), "the operator: start the gateway with --seal-key")
	case errors.Is(err, client.ErrStoredFile):
		return problem(http.StatusConflict, "stored_file", err.Error(), "put what matters into the text: the API takes only stored files")
	case errors.Is(err, stream.ErrBadCursor):
		return problem(http.StatusBadRequest, "bad_cursor", err.Error(), "send the id of an event of this stream as it was, or none to start from the beginning")
	case g.disconnected():
		return noNATS()
	case errors.Is(err, session.ErrNotFound):
		return problem(http.StatusNotFound, "no_session", err.Error(), "check the ID: GET /api/sessions lists yours")
	case errors.Is(err, content.ErrBadID):
		return problem(http.StatusBadRequest, "bad_id", err.Error(), "use an ID that this API has returned")
	case errors.Is(err, session.ErrNoAnswer):
		p := problem(http.StatusGatewayTimeout, "no_answer", err.Error(),
			"the command stays queued: retry with the same Idempotency-Key to learn its outcome, and check that a driver-node runs")
		p.retry = 5
		return p
	case errors.Is(err, client.ErrForbidden):
		return problem(http.StatusForbidden, "nats_forbidden", err.Error(), "the operator: run the gateway as a NATS user with the roles client and approver")
	case errors.Is(err, journal.ErrDamaged):
		return problem(http.StatusInternalServerError, "damaged", err.Error(), "the operator: \"observer verify\" describes the damage; do not write to the session")
	case errors.Is(err, context.DeadlineExceeded):
		p := problem(http.StatusGatewayTimeout, "timeout", err.Error(), "retry with the same Idempotency-Key")
		p.retry = 1
		return p
	}
	if ctx.Err() == nil {
		g.log.Error("request failed", zap.Error(err))
	}
	return problem(http.StatusInternalServerError, "internal", err.Error(), "retry with the same Idempotency-Key; if it stays, the gateway's log and \"turnlog doctor\" say more")
}

// advise makes a problem of what huma reports about a request.
func advise(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := problem(e.Status, "bad_request", e.Detail, "correct the request: /openapi.json says what is expected")
	if p.Errors = e.Errors; e.Status == http.StatusRequestEntityTooLarge {
		p.Type, p.Do = problemType+"too_large", "send less: store files with POST /api/files and refer to them"
	}
	return p, nil
}

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/pending"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/session"
)

func (g *Gateway) approvalRoutes() {
	handle(g, op(http.MethodGet, "/api/approvals", "List pending approvals of all sessions that you may see", http.StatusOK), g.listApprovals)
	handle(g, op(http.MethodGet, "/api/approvals/{id}/{approval}", "Show all questions about a call", http.StatusOK, 404, 410), g.showApproval)
	handle(g, op(http.MethodPost, "/api/approvals/{id}/{approval}", "Decide an approval", http.StatusOK, 403, 404, 409, 410, 422), g.decide)
}

type approvalsIn struct {
	Session string `query:"session" doc:"only approvals of this session"`
}

type approvalsOut struct {
	Body struct {
		Approvals []pending.Pending `json:"approvals"`
	}
}

// listApprovals lists pending approvals, by session. To leave one for later, a client does nothing.
// When a sub-agent and its caller both ask, the list of all sessions has only the caller's question: its decision counts
// for both.
func (g *Gateway) listApprovals(ctx context.Context, in *approvalsIn) (*approvalsOut, error) {
	all := []pending.Pending{}
	if in.Session != "" {
		s, err := g.see(ctx, in.Session)
		if err != nil {
			return nil, err
		}
		return approvals(append(all, pending.Of(s.state, s.subject, s.head).For(person(ctx))...)), nil
	}
	ids, err := g.client.Asking(ctx)
	if err != nil {
		return nil, err
	}
	g.asked.Keep(ids)
	for _, id := range ids {
		asked, err := g.asked.Get(ctx, g.client, id, func() (pending.Asked, error) {
			s, err := g.read(ctx, id)
			if err != nil {
				return pending.Asked{}, err
			}
			return pending.Of(s.state, s.subject, s.head), nil
		})
		if err := g.unlisted(ctx, err); err != nil {
			return nil, err
		}
		all = append(all, asked.For(person(ctx))...)
	}
	return approvals(pending.Once(all)), nil
}

func approvals(all []pending.Pending) *approvalsOut {
	out := &approvalsOut{}
	out.Body.Approvals = all
	return out
}

// ApprovalPath names an approval in a request path.
type ApprovalPath struct {
	SessionPath

	Approval content.ApprovalID `path:"approval" maxLength:"128" doc:"the ID of the approval, or of its call"`
}

type askedOut struct {
	Body struct {
		report.Call

		Questions []*report.Question `json:"questions" doc:"each question about the call, and how it was decided"`
		May       bool               `json:"may_decide"`
	}
}

func (g *Gateway) showApproval(ctx context.Context, in *ApprovalPath) (*askedOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	c, err := g.callOf(ctx, s, content.CallID(in.Approval))
	if err != nil {
		return nil, err
	}
	out := &askedOut{}
	out.Body.Call, out.Body.Questions, out.Body.May = *c, c.Questions, person(ctx).MayDecide(s.subject)
	return out, nil
}

// callsOf returns a reader of a session's calls.
func (g *Gateway) callsOf(s seen) report.Calls {
	return report.Calls{From: g.client, State: s.state, Head: s.head}
}

// callOf reads a call from the journal.
func (g *Gateway) callOf(ctx context.Context, s seen, id content.CallID) (*report.Call, error) {
	c, err := g.callsOf(s).Find(ctx, id)
	if err != nil || c != nil {
		return c, err
	}
	return nil, problem.New(http.StatusNotFound, "no_call", "session "+string(s.state.Session)+" has no call or approval "+string(id),
		"see GET /api/sessions/{id}/calls and GET /api/approvals")
}

type decideIn struct {
	ApprovalPath
	CommandKey

	Body struct {
		Decision string          `json:"decision" enum:"approve,deny"`
		Always   bool            `json:"always,omitempty" doc:"with approve: do not ask the same question about the same tool again in this session"`
		Input    json.RawMessage `json:"input,omitempty" doc:"with approve: the tool gets these arguments instead of the model's"`
		Reason   string          `json:"reason,omitempty" maxLength:"4000" doc:"the model sees the reason of a denial"`
		Shown    string          `json:"shown,omitempty" doc:"the digest of the question that the person saw: the decision is refused if another one is pending"`
	}
}

// decide decides an approval. The first decision counts. A later one is refused, and the error says who decided what.
func (g *Gateway) decide(ctx context.Context, in *decideIn) (*acceptedOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !person(ctx).MayDecide(s.subject) {
		return nil, problem.MayNot("decide what this session asks")
	}
	v := commands.ResolveApproval{
		Approval: in.Approval, Approve: in.Body.Decision == "approve", Always: in.Body.Always, Input: in.Body.Input,
		Reason: in.Body.Reason, By: person(ctx).Name,
	}
	if string(v.Input) == "null" { // same as absent
		v.Input = nil
	}
	if a, ok := pendingAbout(s.state.PendingApprovals(), in.Approval); ok && !s.state.Handled(in.Key) { // a retry keeps its original approval
		v.Approval = a.ID
		if in.Body.Shown != "" {
			if in.Body.Shown != a.Digest {
				return nil, problem.Changed()
			}
			v.Shown = statement.Shown(a) // the driver checks it again
		}
	}
	out, err := g.ask(ctx, s, in.CommandKey, v)
	refused, ok := errors.AsType[*session.InvalidStateError](err)
	switch {
	case ok && refused.Reason == commands.ReasonChanged:
		return nil, problem.Changed()
	case !ok || problem.Hopeless(refused.Reason):
		return out, err
	}
	c, lost := g.callOf(ctx, s, content.CallID(in.Approval))
	switch {
	case lost != nil:
		return nil, lost
	case c.Decision() != "":
		return nil, problem.Refusal(&session.InvalidStateError{Reason: commands.ReasonAlreadyDecided, Detail: c.Tool + " (call " + string(c.Call) + ") is already decided: " + c.Decision()})
	}
	return nil, err
}

// pendingAbout returns the pending approval with an ID, or the oldest one about a call.
func pendingAbout(all []events.Approval, id content.ApprovalID) (events.Approval, bool) {
	for _, a := range all {
		if a.ID == id || a.CallID == content.CallID(id) {
			return a, true
		}
	}
	return events.Approval{}, false
}

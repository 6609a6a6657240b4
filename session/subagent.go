package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// Delegation is the input of the tools that NewTool makes.
type Delegation struct {
	Prompt string `json:"prompt" jsonschema:"the task, with all the context it needs"`
}

// Parent is a calling session in this process. It is the [tool.Caller] of its calls.
type Parent interface {
	tool.Caller
	// Left returns what remains of the calling turn's limits.
	Left() events.Limits
	// Subjects returns what a policy knows about the calling session and the sessions that it works for.
	Subjects() []events.Subject
	// Settled returns the result that the call got while its sub-agent's question was open, or nil
	// while the call is open.
	Settled() *content.ToolResult
}

// OpenChild opens the session of a sub-agent's call, with the ID from [engine.ChildID], or joins it if
// an earlier attempt at the call opened it.
type OpenChild func(ctx context.Context, c tool.Call, prompt string) (*Session, error)

// NewTool returns a tool with which the model of one session delegates work to another.
// Each call has its own session, whose answer is the call's result. If the call is repeated because
// its host was lost, it resumes that session, so no work is done twice.
//
// When the call ends, so does the session: cancelling the call, or exceeding its deadline, cancels
// everything that the session started. If only the call's host stops, the session stays open. The
// calling session asks for the approvals of the session. If one is denied there, it is denied here,
// and the turn continues to its end. The session's usage also counts in the calling session, even if
// it was stopped.
func NewTool(name, description string, open OpenChild, opts ...tool.Option) (tool.Tool, error) {
	return tool.CallFunc(name, description, func(ctx context.Context, c tool.Call, in Delegation) (tool.Output, error) {
		patience, stop := withGrace(ctx)
		defer stop()
		s, err := open(patience, c, in.Prompt)
		if err != nil {
			return tool.Output{}, err
		}
		defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
		return (&child{Session: s, call: c, prompt: in.Prompt}).serve(ctx, patience)
	}, opts...)
}

// withGrace returns a context for the session of a call that lasts for a while after the call ends. The session may
// already be working, even while it is being joined. There must be time to cancel it and count its usage.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	patience, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if endReason(ctx) == "" { // the host is stopping: the turn stays open
			end(context.Cause(ctx))
			return
		}
		time.AfterFunc(endWithin, func() { end(context.Cause(ctx)) }) // even if no driver takes the cancel
	})
	return patience, func() {
		stop()
		end(nil)
	}
}

// ChildQuestion returns the question that the calling session asks for a child's approval. Other
// children have approvals with the same ids, so the scope identifies the question.
func ChildQuestion(a events.Approval) content.QuestionKey {
	return content.QuestionKey{Kind: loop.KindChild + string(a.ID) + "." + a.RequestKind, Scope: a.Tool + " " + a.Scope}
}

// endWithin limits how long an ended call waits for its session to end. It is a little shorter than
// the time that worker and core wait for the call.
const endWithin = 4 * time.Second

// child is the session of one call.
type child struct {
	*Session
	call   tool.Call
	prompt string
}

// serve runs the session until it answers, or has a question for the calling session. It stops when patience ends,
// a while after ctx.
func (c *child) serve(ctx, patience context.Context) (tool.Output, error) {
	over, end := context.WithCancelCause(patience)
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		if reason := endReason(ctx); reason != "" {
			end(reason)
			c.cancel(patience, reason)
		}
	})()
	if p, ok := c.call.Caller.(Parent); ok {
		defer func() { p.Spend(c.used()) }()
		if r := p.Settled(); r != nil {
			return tool.Output{}, c.endAs(patience, over, end, *r)
		}
	}
	return c.answer(patience, over)
}

// endReason returns why a call has ended, or "" if another host will run it again.
func endReason(ctx context.Context) CancelReason {
	cause := context.Cause(ctx)
	if _, late := errors.AsType[*tool.TimeoutError](cause); late {
		return "deadline"
	}
	if errors.Is(cause, engine.ErrStop) || errors.Is(cause, tool.ErrCancelled) {
		return "caller_cancelled"
	}
	return ""
}

// cancel cancels the session and everything that it started. The turn need not have begun, since
// commands are handled in order.
func (c *child) cancel(ctx context.Context, reason CancelReason) {
	_ = c.ask(ctx, engine.ChildCancel(c.call.Session, c.call.Place), "", commands.Cancel{Scope: commands.ScopeSession, Reason: string(reason)})
}

// answer runs the session to the end of its turn, which may have ended already.
func (c *child) answer(patience, over context.Context) (tool.Output, error) {
	for end := c.before(); ; {
		if end != nil {
			return c.result(end)
		}
		step, e, err := c.next(patience, over, c.newTurn())
		switch end = e; {
		case err != nil:
			return tool.Output{}, c.failure(err)
		case end != nil:
			continue
		}
		switch step := step.(type) {
		case *ApprovalRequest:
			err = c.decide(over, step)
		case *AwaitingInput:
			err = step.Submit(patience, content.UserText(c.prompt))
		case *AfterToolResult, *Finished:
		}
		if err != nil {
			return tool.Output{}, err
		}
	}
}

// before returns the end of the session's turn if it ended before this attempt at the call.
func (c *child) before() (end *turnEnd) {
	c.view(func(st *loop.State) {
		if st.Last != nil && st.Turn == nil {
			end = &turnEnd{Ended: *st.Last}
		}
	})
	return end
}

// decide forwards a person's approval, or returns the question for the calling session.
func (c *child) decide(ctx context.Context, r *ApprovalRequest) error {
	if c.config.Approver != nil {
		return c.newTurn().approve(ctx, r)
	}
	key := ChildQuestion(r.Approval)
	if slices.Contains(c.call.Approved, key) {
		err := r.decide(ctx, "approve", commands.ResolveApproval{Approve: true, Reason: "approved in " + string(c.call.Session)})
		if errors.Is(err, ErrInvalidState) {
			return nil // it was decided in the child's own session
		}
		return err
	}
	v := tool.Verdict{
		RequestKind: key.Kind, Scope: key.Scope, Reason: r.Reason, Metadata: r.Metadata,
		Summary: fmt.Sprintf("%s: %s", c.call.Name, cmp.Or(r.Summary, r.Tool)),
	}
	if r.ExpiresAt != 0 {
		v.TTL = max(time.Until(r.ExpiresAt.Std()), time.Second)
	}
	return tool.NeedsApproval(v)
}

// endAs ends the session's turn as the caller has settled the call. If the caller's
// question was denied or expired, the session's question is denied and the turn continues to its
// end. Otherwise the turn is cancelled.
func (c *child) endAs(patience, over context.Context, end context.CancelCauseFunc, r content.ToolResult) error {
	if c.before() != nil {
		return nil
	}
	if r.Status != content.StatusDenied && r.Status != content.StatusExpired {
		reason := CancelReason("caller_" + string(r.Status))
		end(reason)
		c.cancel(patience, reason)
	}
	for {
		step, e, err := c.next(patience, over, c.newTurn())
		if err != nil || e != nil {
			return err
		}
		switch step := step.(type) {
		case *ApprovalRequest:
			err = step.DenyWithReason(patience, r.DenialReason())
		case *AwaitingInput:
			return nil
		case *AfterToolResult, *Finished:
		}
		if err != nil && !errors.Is(err, ErrInvalidState) {
			return err
		}
	}
}

// result returns the turn's end as the call's output.
func (c *child) result(end *turnEnd) (tool.Output, error) {
	step, err := end.step()
	if err != nil {
		return tool.Output{}, c.failure(err)
	}
	res, err := step.(*Finished).Outcome()
	if err != nil {
		return tool.Output{}, c.failure(err)
	}
	out := tool.Text(res.Response)
	out.Usage, out.Counts = c.used()
	return out, nil
}

func (c *child) failure(err error) error {
	e := &tool.Error{Code: tool.CodeFailed, Message: err.Error()}
	e.Usage, e.Counts = c.used()
	return e
}

// used returns what the session and its own sub-agents have used.
func (c *child) used() (u content.Usage, n tool.Counts) {
	c.view(func(st *loop.State) {
		u, n = st.Used.Usage, tool.Counts{Requests: st.Used.Requests, ToolCalls: st.Used.ToolCalls}
	})
	return u, n
}

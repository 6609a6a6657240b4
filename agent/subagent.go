package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// Delegation is the input of the tools that Agent.Tool makes.
type Delegation struct {
	Prompt string `json:"prompt" jsonschema:"what to do, with everything that has to be known for it"`
}

// Tool returns a tool with which the model of another agent hands work to this one.
// Every call has a session of its own, named after the calling session and the call,
// in this agent's journal; its answer is the call's result. The call's end ends it:
// to cancel the call cancels the turn. A call that is repeated after a crash goes on
// with its session, so nothing is done twice, and what a person has to approve there
// is asked in the calling session.
//
// The session has the limits of this agent, and may use no more requests, tool calls,
// tokens and money than the calling turn has left when the call is made. What it
// used of them, also if it was stopped, is counted in the calling session too.
//
// If a person says no to what it asks, or nobody says anything in time, that is the
// call's result, and the session is told and goes on to the end of its turn. If the
// calling turn ends meanwhile, so does its turn.
func (a *Agent) Tool(name, description string, opts ...tool.Option) (tool.Tool, error) {
	opts = append([]tool.Option{tool.Idempotent()}, opts...)
	return tool.CallFunc(name, description, func(ctx context.Context, c tool.Call, in Delegation) (tool.Output, error) {
		return a.delegate(ctx, c, in.Prompt)
	}, opts...)
}

// ChildID names the session that a call of a sub-agent's tool runs in.
func ChildID(parent content.SessionID, p content.Place) content.SessionID {
	return content.SessionID(string(parent) + "-" + string(p))
}

// ChildCancel names the command that cancels that session for its caller, so that it is
// cancelled once, whoever sends it.
func ChildCancel(parent content.SessionID, p content.Place) string {
	return "cancel/" + string(ChildID(parent, p))
}

func (a *Agent) delegate(ctx context.Context, c tool.Call, prompt string) (tool.Output, error) {
	task := errandOf(c)
	d, err := a.start(ctx, SessionConfig{ID: ChildID(c.Session, c.Place), Parent: c.Session}, task.left)
	if err != nil {
		return tool.Output{}, err
	}
	defer func() { _ = d.Close(context.WithoutCancel(ctx)) }()
	defer func() { task.Spend(d.used()) }()
	if task.settled != nil && d.Snapshot().Turn == "" {
		return tool.Output{}, nil // it was told before
	}
	turn, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if unwantedNow(context.Cause(ctx)) {
			cancel()
			return
		}
		_ = d.Close(context.WithoutCancel(ctx)) // the caller is gone: the turn stays open
	})
	defer stop()
	if task.settled != nil {
		return tool.Output{}, d.settle(turn, *task.settled)
	}
	return d.serve(turn, c, prompt)
}

// unwantedNow reports whether a call ended for good: it was stopped, or its time is
// over.
func unwantedNow(cause error) bool {
	return errors.Is(cause, engine.ErrStop) || errors.Is(cause, context.DeadlineExceeded)
}

// serve drives the session until it has an answer, or a question that the calling
// session has to ask.
func (d *Driver) serve(ctx context.Context, c tool.Call, prompt string) (tool.Output, error) {
	for {
		res, err := d.carryOn(ctx, prompt)
		pending, ok := errors.AsType[*ApprovalPendingError](err)
		if !ok || len(pending.Approvals) == 0 {
			return d.answer(res, err)
		}
		ask := pending.Approvals[0]
		if k := ChildGate(ask); !slices.Contains(c.Approved, k) {
			return tool.Output{}, tool.NeedsApproval(tool.Verdict{
				RequestKind: k.Kind, Scope: k.Scope, Reason: ask.Reason, Metadata: ask.Metadata,
				Summary: fmt.Sprintf("%s: %s", c.Name, ask.Summary),
			})
		}
		if err := d.ResolveApprovalFor(ctx, ask.CallID, Decision{Approve: true, Reason: "approved in " + string(c.Session)}); err != nil {
			return tool.Output{}, err
		}
	}
}

// carryOn runs a new session's only turn, goes on with one that is open, or returns
// what came of one that has ended.
func (d *Driver) carryOn(ctx context.Context, prompt string) (*RunResult, error) {
	snap := d.Snapshot()
	switch {
	case snap.LastTurn != nil && snap.Turn == "":
		return d.concludeLast()
	case snap.Turn == "" && len(snap.PendingInput) == 0:
		return d.RunText(ctx, prompt)
	}
	return d.Run(ctx)
}

// answer is the session's, with what it used.
func (d *Driver) answer(res *RunResult, err error) (tool.Output, error) {
	u, n := d.used()
	if err != nil {
		return tool.Output{}, &tool.Error{Code: tool.CodeFailed, Message: err.Error(), Usage: u, Counts: n}
	}
	out := tool.Text(res.Response)
	out.Usage, out.Counts = u, n
	return out, nil
}

// used is what the session used over its life, with all that worked for it.
func (d *Driver) used() (content.Usage, tool.Counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Used.Usage, tool.Counts{Requests: d.state.Used.Requests, ToolCalls: d.state.Used.ToolCalls}
}

// ChildGate is what a child's approval is called in the calling session, for hosts
// that run children elsewhere. Other children have approvals of the same ids, so its
// scope says what it is about.
func ChildGate(a events.Approval) content.GateKey {
	return content.GateKey{Kind: loop.KindChild + string(a.ID) + "." + a.RequestKind, Scope: a.Tool + " " + a.Scope}
}

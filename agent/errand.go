package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// errand is what a session tells those that work for it, and hears of them. It is the
// [tool.Caller] of its calls.
type errand struct {
	left    events.Limits       // of the caller's budget
	settled *content.ToolResult // nil: the work is to be done; else what the caller made of its call while it asked

	mu   sync.Mutex
	used spent
}

// spent is what was used on an errand.
type spent struct {
	usage  content.Usage
	counts tool.Counts
}

// errandOf is what the caller says; nothing, if it is another program.
func errandOf(c tool.Call) *errand {
	if e, ok := c.Caller.(*errand); ok {
		return e
	}
	return &errand{}
}

// Spend keeps what was used until now.
func (e *errand) Spend(u content.Usage, n tool.Counts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used = spent{u, n}
}

// billed is an outcome with what was used for it, if it does not say itself.
func (e *errand) billed(out tool.Result) tool.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	if (spent{out.Usage, out.Counts}) == (spent{}) {
		out.Usage, out.Counts = e.used.usage, e.used.counts
	}
	return out
}

// decline tells the session that works for a call that nobody waits for it any more: its
// question is settled without a yes, or its host died and the call has been ended. It
// reports what the session had used. Other tools have nothing to undo.
func (d *Driver) decline(ctx context.Context, e loop.StopTool, v view) commands.Command {
	c := v.stops
	o, ok := v.catalog.Lookup(c.Name)
	asks := slices.ContainsFunc(c.Asked, func(k content.GateKey) bool { return strings.HasPrefix(k.Kind, loop.KindChild) })
	if !ok || !asks && !d.works(ctx, c.Place) {
		return nil
	}
	task := &errand{left: v.left, settled: &content.ToolResult{Status: c.Status}}
	if c.Result != nil {
		task.settled = c.Result
	}
	out := task.billed(tool.Invoke(ctx, o.Tool, tool.Call{
		Session: d.ID(), Turn: c.Turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.EffectiveInput(),
		Attempt: c.Attempt, Resources: d.agent.cfg.Resources, Caller: task,
	}))
	out.Result = content.NewResult(c.ID, c.Name, content.StatusCancelled, "Cancelled before it reported a result") // whatever it said
	return d.outlived(ctx, e, c.ID, commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: out})
}

// works reports whether the journal knows a session that works for a call of this one.
func (d *Driver) works(ctx context.Context, p content.Place) bool {
	for rec, err := range d.agent.cfg.Journal.Read(ctx, ChildID(d.ID(), p), 0) {
		if err != nil || rec.Err != nil {
			return false
		}
		for _, ev := range rec.Entry.Events {
			if began, ok := ev.(events.RunStarted); ok {
				return began.Parent == d.ID()
			}
		}
	}
	return false
}

// settle answers the questions of a session whose caller made something else of the
// call: with no, if a person said so or nobody did, and the turn goes on to its end;
// or by the end of the turn.
func (d *Driver) settle(ctx context.Context, r content.ToolResult) error {
	if r.Status != content.StatusDenied && r.Status != content.StatusExpired {
		if err := d.Cancel(ctx, "caller_"+string(r.Status)); err != nil {
			return err
		}
	}
	for {
		_, err := d.Run(ctx)
		pending, ok := errors.AsType[*ApprovalPendingError](err)
		if !ok {
			return err
		}
		for _, a := range pending.Approvals {
			no := Decision{Reason: strings.TrimPrefix(r.Text(), "Permission denied: ")}
			if err := d.ResolveApprovalFor(ctx, a.CallID, no); err != nil && !errors.Is(err, ErrInvalidState) {
				return err
			}
		}
	}
}

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

// errand is what a session tells those that work for it, and hears of them. It comes
// with the context of the call: between the two stand a task manager, a durable
// wrapper and middleware, none of which it concerns.
type errand struct {
	left    events.Limits       // of the caller's budget
	settled *content.ToolResult // nil: the work is to be done; else what the caller made of its call while it asked

	mu   sync.Mutex
	used content.Usage
}

type errandKey struct{}

func withErrand(ctx context.Context, e *errand) context.Context {
	return context.WithValue(ctx, errandKey{}, e)
}

// errandOf is what the caller says; nothing, if it is another program.
func errandOf(ctx context.Context) *errand {
	if e, ok := ctx.Value(errandKey{}).(*errand); ok {
		return e
	}
	return &errand{}
}

func (e *errand) spend(u content.Usage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used = u
}

func (e *errand) spent() content.Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.used
}

// childGate begins the kind of a question that a sub-agent's session asks.
const childGate = "subagent."

// decline tells the session that asked through a call that its question is settled
// without a yes, and reports what it had used. Other tools that asked have nothing
// to undo.
func (d *Driver) decline(ctx context.Context, e loop.StopTool, v view) commands.Command {
	c := *e.Held
	o, ok := v.catalog.Lookup(c.Name)
	if !ok || !slices.ContainsFunc(c.Asked, func(k content.GateKey) bool { return strings.HasPrefix(k.Kind, childGate) }) {
		return nil
	}
	task := &errand{left: v.left, settled: c.Result}
	out := tool.Invoke(withErrand(ctx, task), o.Tool, tool.Call{
		Session: d.ID(), Turn: c.Turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.EffectiveInput(),
		Attempt: c.Attempt, Resources: d.agent.cfg.Resources,
	})
	if out.Usage = task.spent(); out.Usage == (content.Usage{}) {
		return nil
	}
	return d.outlived(ctx, e, c.ID, commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: out})
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

package agent

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// callBudget passes the limits and policy subjects of a caller to the sub-agents of one call, and
// collects their usage.
type callBudget struct {
	left    events.Limits       // what the calling turn has left
	of      []events.Subject    // the calling session, and the sessions that it works for
	settled *content.ToolResult // nil: the call is open

	mu     sync.Mutex
	usage  content.Usage
	counts tool.Counts
}

// Left returns the calling turn's remaining limits.
func (b *callBudget) Left() events.Limits { return b.left }

// Subjects returns what the policy knows about the calling session and the sessions that it works for.
func (b *callBudget) Subjects() []events.Subject { return b.of }

// Settled returns the call's result if it has one already.
func (b *callBudget) Settled() *content.ToolResult { return b.settled }

// Spend records the usage so far.
func (b *callBudget) Spend(u content.Usage, n tool.Counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage, b.counts = u, n
}

// charged adds the recorded usage to an outcome that has none.
func (b *callBudget) charged(out tool.Result) tool.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out.Usage == (content.Usage{}) && out.Counts == (tool.Counts{}) {
		out.Usage, out.Counts = b.usage, b.counts
	}
	return out
}

// decline ends the session that works for a finished call: the call's question was denied or expired,
// or its host died and the call was ended. It reports the session's usage. Calls of other tools need
// nothing undone.
func (d *driver) decline(ctx context.Context, e loop.StopTool, c loop.Call, left events.Limits, tools *engine.Catalog) commands.Command {
	o, ok := tools.Lookup(c.Name)
	asks := slices.ContainsFunc(c.Asked, func(k content.QuestionKey) bool { return strings.HasPrefix(k.Kind, loop.KindChild) })
	if !ok || !asks && !d.works(ctx, c.Place) {
		return nil
	}
	budget := &callBudget{left: left, settled: &content.ToolResult{Status: c.Status}}
	if c.Result != nil {
		budget.settled = c.Result
	}
	out := budget.charged(tool.Invoke(ctx, o.Tool, tool.Call{
		Session: d.ID(), Turn: c.Turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.EffectiveInput(),
		Attempt: c.Attempt, Resources: d.agent.cfg.Resources, Caller: budget,
	}))
	out.Result = content.NewResult(c.ID, c.Name, content.StatusCancelled, "Cancelled before it reported a result")
	return d.recordAnswered(ctx, e, c.ID, commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: out})
}

// works reports whether the journal has a session that works for a call of this one.
func (d *driver) works(ctx context.Context, p content.Place) bool {
	for rec, err := range d.agent.cfg.Journal.Read(ctx, engine.ChildID(d.ID(), p), 0) {
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

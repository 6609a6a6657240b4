package agent

import (
	"context"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// perform performs one effect, in its own goroutine.
func (d *driver) perform(ctx context.Context, e loop.Effect, v *engine.View) commands.Command {
	return d.agent.runner.Perform(ctx, e, v, host{d})
}

// due returns when a timer is reported.
func due(e loop.ArmTimer) time.Time { return e.At.Std() }

// host performs effects in this process, including tools.
type host struct{ d *driver }

// OpenModel returns the agent's model.
func (h host) OpenModel(loop.CallModel, *engine.View) (model.Model, commands.Command) {
	return h.d.agent.cfg.Model, nil
}

// RunTool runs a call.
func (h host) RunTool(ctx context.Context, e loop.RunTool, v *engine.View) commands.Command {
	return h.d.runTool(ctx, e, v)
}

// StopTool ends the session of a call's sub-agent, unless the tool runs here: then the performer has
// stopped the tool, which ends the session.
func (h host) StopTool(ctx context.Context, e loop.StopTool, v *engine.View) commands.Command {
	h.d.mu.Lock()
	left := loop.Remaining(h.d.state)
	var c loop.Call
	if e.Held != nil || !h.d.begun[e.Place] {
		c, _ = h.d.state.StoppingCall(e.Place)
	}
	h.d.mu.Unlock()
	if c.ID == "" {
		return nil
	}
	return h.d.decline(ctx, e, c, left, v.Catalog)
}

// Verifier returns the verifier of the task that this driver started.
func (h host) Verifier() (extension.Verifier, string) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.verifier, h.d.agent.cfg.Root
}

// Publish shows a live event to the observers. They are there from the start and miss nothing, so nothing is repeated.
func (h host) Publish(ev events.Event) {
	if events.KindOf(ev) != events.KindContentRepeated {
		h.d.showLive(ev)
	}
}

func (d *driver) runTool(ctx context.Context, e loop.RunTool, v *engine.View) commands.Command {
	d.mu.Lock()
	d.begun[e.Call.Place] = true
	task := &callBudget{left: loop.Remaining(d.state), of: d.state.Policy.Subjects}
	d.mu.Unlock()
	rep := d.agent.runner.RunTool(ctx, e.Call, v, task, func(text string, share float64) {
		d.showLive(events.ToolProgress{Call: e.Call.ID, Text: text, Share: share})
	})
	if rep == nil {
		return nil
	}
	if r, ok := rep.(commands.ReportResult); ok {
		r.Outcome = task.charged(r.Outcome)
		rep = r
	}
	return d.recordAnswered(ctx, e, e.Call.ID, rep)
}

// recordAnswered records the outcome of an answered call at once, even if no Next is running. It returns
// the report if Next must decide on it.
func (d *driver) recordAnswered(ctx context.Context, e loop.Effect, id content.CallID, rep commands.Command) commands.Command {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.state.Call(id); ok && !c.Answered() {
		return rep
	}
	if d.dead == nil && d.decideLocked(context.WithoutCancel(ctx), e.Identity(), rep) != nil {
		return rep // for example, a tool source is down
	}
	d.wake()
	return nil
}

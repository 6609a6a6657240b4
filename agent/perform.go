package agent

import (
	"context"
	"slices"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// view is what an effect sees of the session: values that later entries do not
// change.
type view struct {
	transcript []content.Item
	catalog    *engine.Catalog
	turn       *loop.Turn
	gate       extension.Verifier
	left       events.Limits // of the budget
	stops      loop.Call     // what a StopTool is about; zero: it was run here, and stops here
}

// view is taken in the effect's own goroutine. By then the session may have gone on
// without the effect; owed says whether it is still wanted.
func (d *Driver) view(e loop.Effect) (v view, owed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.state.Fork()
	owed = slices.ContainsFunc(loop.Pending(&f), func(o loop.Effect) bool { return o.Identity() == e.Identity() })
	var stops loop.Call
	switch e := any(e).(type) {
	case loop.RunTool:
		d.begun[e.Call.Place] = d.begun[e.Call.Place] || owed
	case loop.StopTool:
		if e.Held != nil || !d.begun[e.Place] {
			stops, _ = f.StoppingCall(e.Place)
		}
	}
	return view{stops: stops, transcript: f.Transcript, catalog: d.catalog, turn: f.Turn, gate: d.gate, left: loop.Remaining(&f)}, owed
}

// perform does one effect, in its own goroutine.
func (d *Driver) perform(ctx context.Context, e loop.Effect) commands.Command {
	r := d.agent.runner
	v, owed := d.view(e)
	if !owed {
		return unwanted(e)
	}
	in := engine.Input{
		Session: d.ID(), Transcript: v.transcript, Catalog: v.catalog, Turn: v.turn, Gate: v.gate, Root: d.agent.cfg.Root,
	}
	if c, done := r.Perform(ctx, e, in); done {
		return c
	}
	switch e := any(e).(type) {
	case loop.CallModel:
		return r.CallModel(ctx, e, engine.ModelInput{
			Session: d.ID(), Model: d.agent.cfg.Model, Transcript: v.transcript, Catalog: v.catalog,
		}, d.showLive)
	case loop.RunTool:
		return d.runTool(ctx, e, v)
	case loop.ArmTimer:
		return fire(ctx, e)
	case loop.StopTool:
		if v.stops.ID != "" {
			return d.decline(ctx, e, v)
		}
	}
	// What is to stop is no longer owed, so the performer has stopped it.
	return nil
}

// unwanted is the report of an effect that was not started because nobody wants it
// any more. A cancelled turn waits for its model call to have stopped.
func unwanted(e loop.Effect) commands.Command {
	if m, ok := e.(loop.CallModel); ok {
		return commands.ReportModelStopped{ModelCall: m.ModelCall}
	}
	return nil
}

func (d *Driver) runTool(ctx context.Context, e loop.RunTool, v view) commands.Command {
	task := &callBudget{left: v.left}
	rep := d.agent.runner.RunTool(ctx, d.ID(), e.Call, v.catalog, task, func(text string, share float64) {
		d.showLive(events.ToolProgress{Call: e.Call.ID, Text: text, Share: share})
	})
	if rep == nil {
		return nil
	}
	if r, ok := rep.(commands.ReportResult); ok {
		r.Outcome = task.charged(r.Outcome)
		rep = r
	}
	return d.outlived(ctx, e, e.Call.ID, rep)
}

// outlived records the outcome of a call that nobody waits for as it comes, whether or
// not a Next is running; what follows from it is Next's. It returns what is left for
// Next to decide.
func (d *Driver) outlived(ctx context.Context, e loop.Effect, id content.CallID, rep commands.Command) commands.Command {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.state.Call(id); ok && !c.Answered() {
		return rep
	}
	if d.dead == nil && d.decideLocked(context.WithoutCancel(ctx), e.Identity(), rep) != nil {
		return rep // a tool source is down, say
	}
	d.wake()
	return nil
}

func fire(ctx context.Context, e loop.ArmTimer) commands.Command {
	t := time.NewTimer(time.Until(e.At.Std()))
	defer t.Stop()
	select {
	case <-t.C:
		return commands.ReportTimer{Kind: e.Kind, ID: e.ID}
	case <-ctx.Done():
		return nil
	}
}

package agent

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/effect"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// view is what an effect sees of the session: values that later entries do not
// change.
type view struct {
	transcript []content.Item
	catalog    *effect.Catalog
	turn       *loop.Turn
	gate       extension.Gate
}

// view is taken in the effect's own goroutine. By then the session may have gone on
// without the effect; owed says whether it is still wanted.
func (d *Driver) view(e loop.Effect) (v view, owed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.state.Fork()
	owed = slices.ContainsFunc(loop.Pending(&f), func(o loop.Effect) bool { return o.Identity() == e.Identity() })
	return view{transcript: f.Transcript, catalog: d.catalog, turn: f.Turn, gate: d.gate}, owed
}

// perform does one effect, in its own goroutine.
func (d *Driver) perform(ctx context.Context, e loop.Effect) commands.Command {
	r := d.agent.runner
	v, owed := d.view(e)
	if !owed {
		return unwanted(e)
	}
	switch e := e.(type) {
	case loop.CallModel:
		return r.CallModel(ctx, e, effect.ModelInput{
			Session: d.ID(), Model: d.agent.cfg.Model, Transcript: v.transcript, Catalog: v.catalog,
		}, d.showLive)
	case loop.Preflight:
		return r.Preflight(ctx, d.ID(), e, v.catalog)
	case loop.RunTool:
		return d.runTool(ctx, e, v)
	case loop.RunHooks:
		return r.RunHooks(ctx, e, effect.HookInput{
			Session: d.ID(), Transcript: v.transcript, Catalog: v.catalog, Turn: v.turn,
		})
	case loop.RunMutator:
		return r.Mutate(ctx, d.ID(), e, v.transcript)
	case loop.ArmTimer:
		return fire(ctx, e)
	case loop.Recall:
		return r.Recall(ctx, e)
	case loop.StoreMemory:
		return r.Remember(ctx, e)
	case loop.Verify:
		return r.Verify(ctx, e, v.gate, d.agent.cfg.Root)
	case loop.StopModel, loop.StopTool, loop.StopVerify:
		// What is to stop is no longer owed, so the performer has stopped it.
	}
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
	rep := d.agent.runner.RunTool(ctx, d.ID(), e.Call, v.catalog, func(text string, share float64) {
		d.showLive(events.ToolProgress{Call: e.Call.ID, Text: text, Share: share})
	})
	if rep == nil {
		return nil
	}
	return d.outlived(ctx, e, rep)
}

// outlived records the outcome of a call in the background as it comes, whether or
// not a Next is running: nothing else follows from it. It returns what is left for
// Next to decide.
func (d *Driver) outlived(ctx context.Context, e loop.RunTool, rep commands.Command) commands.Command {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.state.Call(e.Call.ID)
	if !ok || c.Placeholder == "" {
		return rep
	}
	if d.dead != nil || d.decideLocked(context.WithoutCancel(ctx), e.Identity(), rep) == nil {
		return nil
	}
	return rep // a tool source is down, say
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

// show hands an entry's events to the observers, then the phase if a task came to
// another one, then the items it appended to the transcript observers.
func (d *Driver) show(e events.Entry, before int, phase events.Phase) {
	d.live.Lock()
	defer d.live.Unlock()
	rewritten := false
	for _, ev := range e.Events {
		if m, ok := ev.(events.MutationFinished); ok {
			rewritten = rewritten || m.Dirty
		}
		if _, ok := ev.(events.RunStarted); ok {
			before = len(d.state.Transcript)
		}
		d.observe(extension.Observed{Session: e.Session, Seq: e.Seq, At: e.At.Std(), Cause: e.Cause, Event: ev})
	}
	if now := d.state.Phase(); now != phase {
		d.observe(extension.Observed{
			Session: e.Session, Seq: e.Seq, At: e.At.Std(), Cause: e.Cause, Event: events.StateChanged{Phase: now},
		})
	}
	if rewritten || before > len(d.state.Transcript) {
		return
	}
	for _, it := range d.state.Transcript[before:] {
		for _, o := range d.agent.cfg.TranscriptObservers {
			d.guard("transcript observer", func() { o.OnItemAppended(e.Session, it) })
		}
	}
}

// showLive hands what is live only to the observers.
func (d *Driver) showLive(ev events.Event) {
	d.live.Lock()
	defer d.live.Unlock()
	d.observe(extension.Observed{Session: d.ID(), At: time.Now(), Event: ev})
}

func (d *Driver) observe(o extension.Observed) {
	if d.tap != nil {
		d.tap(o.Event)
	}
	for _, obs := range d.agent.cfg.Observers {
		d.guard("observer", func() { obs.HandleEvent(o) })
	}
}

// guard keeps a broken observer from breaking the loop.
func (d *Driver) guard(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error(what+" broke", zap.Any("panic", p))
		}
	}()
	f()
}

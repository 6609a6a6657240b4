package actor

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// maxOpenTasks bounds a session's calls on one queue, so that one session with
// thousands of calls does not hold up the others. The rest stays pending.
const maxOpenTasks = 16

// view is what effects see of the session: values that later entries do not change.
type view struct {
	transcript []content.Item
	config     events.Config
	catalog    *engine.Catalog
	turn       *loop.Turn
	called     commands.ModelCall // the last one that this driver began
	epoch      uint64
	decided    content.Time // when the last entry was; zero: by a clock that is not trusted
}

// sync makes what runs equal to what is owed. Before anything that costs or acts,
// the lease must be fresh.
func (d *Driver) sync(ctx context.Context) error {
	owed := d.owed()
	return d.performer.Sync(owed, func() error { return d.prepare(ctx, owed) }) //nolint:contextcheck // effects live as long as the driver, not as this command
}

// prepare takes the view that effects which are about to start have of the session.
func (d *Driver) prepare(ctx context.Context, owed []loop.Effect) error {
	if !d.lease.fresh() {
		return ErrLeaseLost
	}
	catalog, err := d.node.offers.catalog(ctx, d.state.Config.Tools, d.outfit)
	if err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	v := &view{
		transcript: slices.Clip(d.state.Transcript), config: d.state.Config, catalog: catalog, epoch: d.state.Epoch,
		decided: d.node.clock.vouches(d.state.At),
	}
	if old := d.view.Load(); old != nil {
		v.called = old.called
	}
	for _, e := range owed {
		switch e := any(e).(type) {
		case loop.CallModel:
			v.called = e.ModelCall
		case loop.RunHooks:
			v.turn = d.state.Fork().Turn
		}
	}
	d.view.Store(v)
	return nil
}

// owed is what the session owes now, less what was posted and the calls beyond
// those that a session may have on a queue.
func (d *Driver) owed() []loop.Effect {
	pending := d.pending()
	d.posted.forget(pending)
	open := d.openTasks(pending)
	return slices.DeleteFunc(pending, func(e loop.Effect) bool {
		switch e := any(e).(type) {
		case loop.RunTool:
			id, queue := e.Identity(), e.Call.Routing.Queue
			if on := d.posted.has(id); on || d.performer.Has(id) {
				return on
			}
			open[queue]++
			return open[queue] > maxOpenTasks
		case loop.StopTool:
			return d.posted.has(e.Identity())
		}
		return false
	})
}

// openTasks counts the calls that are on each queue, or on their way there.
func (d *Driver) openTasks(pending []loop.Effect) map[string]int {
	open := make(map[string]int)
	for _, e := range pending {
		if e, ok := e.(loop.RunTool); ok && (d.posted.has(e.Identity()) || d.performer.Has(e.Identity())) {
			open[e.Call.Routing.Queue]++
		}
	}
	return open
}

// atRest reports whether nothing needs this process: no work, and nothing that has
// yet to be posted.
func (d *Driver) atRest() bool {
	return d.state.Parkable() && !slices.ContainsFunc(d.owed(), func(e loop.Effect) bool { return isCall(e.Identity()) })
}

// isCall tells the identities of effects on the task queues from the others.
func isCall(id string) bool {
	return strings.HasPrefix(id, "tool/") || strings.HasPrefix(id, "stop/tool/")
}

// perform does one effect, in its own goroutine. A panic there ends the session's
// driver, not the node.
func (d *Driver) perform(ctx context.Context, e loop.Effect) (c commands.Command) {
	defer func() {
		if p := recover(); p != nil {
			c = nil
			d.fail(&brokenError{what: e.Identity(), value: p, stack: debug.Stack()})
		}
	}()
	r, v, s := d.outfit.runner, d.view.Load(), d.token.Session()
	in := engine.Input{Session: s, Transcript: v.transcript, Catalog: v.catalog, Turn: v.turn} // a gate is a call
	if c, done := r.Perform(ctx, e, in); done {
		return c
	}
	switch e := any(e).(type) {
	case loop.CallModel:
		d.node.cfg.Metrics.EffectStarted("model")
		return d.callModel(ctx, e, v)
	case loop.StopModel:
		if v.called != e.ModelCall { // by this driver; a call that runs says itself how it was stopped
			return commands.ReportModelStopped{ModelCall: e.ModelCall}
		}
	case loop.RunTool:
		d.node.cfg.Metrics.EffectStarted("tool")
		return d.dispatch(ctx, e)
	case loop.StopTool:
		return d.stopTool(ctx, e)
	case loop.ArmTimer:
		return fire(ctx, e)
	case loop.StopVerify:
		return commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt}}
	}
	return nil
}

func (d *Driver) callModel(ctx context.Context, e loop.CallModel, v *view) commands.Command {
	if e.TranscriptLen > len(v.transcript) {
		return nil // the session went on without the call before it was begun
	}
	m, err := d.node.models.open(v.config.Model, v.config.ModelData)
	if err != nil {
		return d.unopened(e, err)
	}
	in := engine.ModelInput{Session: d.token.Session(), Model: m, Transcript: v.transcript, Catalog: v.catalog}
	return d.outfit.runner.CallModel(ctx, e, in, d.tell)
}

func fire(ctx context.Context, e loop.ArmTimer) commands.Command {
	if !pause(ctx, max(time.Until(due(e)), time.Millisecond)) {
		return nil
	}
	return commands.ReportTimer{Kind: e.Kind, ID: e.ID}
}

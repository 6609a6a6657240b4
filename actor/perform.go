package actor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// maxOpenTasks bounds a session's calls on one queue, so that one session with thousands of
// calls does not hold up the others. The rest stays pending.
const maxOpenTasks = 16

// view is what effects see of the session: values that later entries do not change.
type view struct {
	seq        uint64
	transcript []content.Item
	config     events.Config
	catalog    *engine.Catalog
	turn       *loop.Turn
	called     commands.ModelCall // the last one that this driver began
	epoch      uint64
	decided    content.Time // the time of the last entry; zero if it may not be compared with the servers' clocks
}

// sync makes what runs equal to what is owed. Before anything that costs or acts, the lease
// must be fresh.
func (d *driver) sync(context.Context) error {
	owed := d.owed()
	return d.performer.Sync(owed, func() error { return d.prepare(owed) })
}

// prepare takes the view that effects which are about to start have of the session.
func (d *driver) prepare(owed []loop.Effect) error {
	if !d.lease.fresh() {
		return ErrLeaseLost
	}
	v := &view{
		seq: d.Head.Seq, transcript: slices.Clip(d.State.Transcript), config: d.State.Config, catalog: d.Catalog, epoch: d.State.Epoch,
		decided: d.node.clock.comparable(d.State.At),
	}
	if old := d.view.Load(); old != nil {
		v.called = old.called
	}
	for _, e := range owed {
		switch e := any(e).(type) {
		case loop.CallModel:
			v.called = e.ModelCall
		case loop.RunHooks:
			v.turn = d.State.Fork().Turn
		}
	}
	d.view.Store(v)
	return nil
}

// owed is what the session owes now, less what was dispatched and the calls beyond those that
// a session may have on a queue.
func (d *driver) owed() []loop.Effect {
	pending := d.pending()
	d.dispatched.prune(pending)
	open := d.openTasks(pending)
	return slices.DeleteFunc(pending, func(e loop.Effect) bool {
		switch e := any(e).(type) {
		case loop.RunTool:
			id, queue := e.Identity(), e.Call.Routing.Queue
			if on := d.dispatched.has(id); on || d.performer.Has(id) {
				return on
			}
			open[queue]++
			return open[queue] > maxOpenTasks
		case loop.StopTool:
			return d.dispatched.has(e.Identity())
		}
		return false
	})
}

// openTasks counts the calls that are on each queue, or on their way there.
func (d *driver) openTasks(pending []loop.Effect) map[string]int {
	open := make(map[string]int)
	for _, e := range pending {
		if e, ok := e.(loop.RunTool); ok && (d.dispatched.has(e.Identity()) || d.performer.Has(e.Identity())) {
			open[e.Call.Routing.Queue]++
		}
	}
	return open
}

// atRest reports whether nothing needs this process: no work, and nothing to dispatch.
func (d *driver) atRest() bool {
	return d.State.Parkable() && !slices.ContainsFunc(d.owed(), func(e loop.Effect) bool { return isCall(e.Identity()) })
}

// isCall tells the identities of effects on the task queues from the others.
func isCall(id string) bool {
	return strings.HasPrefix(id, "tool/") || strings.HasPrefix(id, "stop/tool/")
}

// perform does one effect, in its own goroutine.
func (d *driver) perform(ctx context.Context, e loop.Effect) commands.Command {
	r, v := d.agent.runner, d.view.Load()
	in := engine.Input{Session: d.token.Session(), Transcript: v.transcript, Catalog: v.catalog, Turn: v.turn} // a verifier is a call
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

func (d *driver) callModel(ctx context.Context, e loop.CallModel, v *view) commands.Command {
	if e.TranscriptLen > len(v.transcript) {
		return nil // the session went on without the call before it was begun
	}
	m, err := d.node.models.open(v.config.Model, v.config.ModelData)
	if err != nil {
		return d.unopened(e, err)
	}
	in := engine.ModelInput{Session: d.token.Session(), Model: m, Transcript: v.transcript, Catalog: v.catalog}
	return d.agent.runner.CallModel(ctx, e, in, d.publish)
}

func fire(ctx context.Context, e loop.ArmTimer) commands.Command {
	if !pause(ctx, max(time.Until(due(e)), time.Millisecond)) {
		return nil
	}
	return commands.ReportTimer{Kind: e.Kind, ID: e.ID}
}

// dispatched holds the identities of the calls that are on their queues, and of those that
// were told to stop. It is safe for concurrent use: the effect that dispatches a call adds
// it, so the driver need not wake for it.
type dispatched struct {
	mu  sync.Mutex // guards ids
	ids map[string]bool
}

func (p *dispatched) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[id]
}

func (p *dispatched) set(id string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !is {
		delete(p.ids, id)
		return
	}
	if p.ids == nil {
		p.ids = make(map[string]bool)
	}
	p.ids[id] = true
}

// prune keeps only what is still pending, once there is much that is not.
func (p *dispatched) prune(pending []loop.Effect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) <= len(pending)+2*maxOpenTasks {
		return
	}
	still := make(map[string]bool)
	for _, e := range pending {
		if id := e.Identity(); p.ids[id] {
			still[id] = true
		}
	}
	p.ids = still
}

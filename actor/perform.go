package actor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// maxOpenTasks bounds a session's calls on one queue, so that one session with thousands of
// calls does not hold up the others. The rest stays pending.
const maxOpenTasks = 16

// sync makes what runs equal to what is owed. Before anything that costs or acts, the lease
// must be fresh.
func (d *driver) sync(context.Context) error {
	owed := d.owed()
	return d.performer.Sync(owed, func() (*engine.View, error) { //nolint:contextcheck // effects outlive the command
		if !d.lease.fresh() {
			return nil, ErrLeaseLost
		}
		return d.View(owed), nil
	})
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

// perform performs one effect, in its own goroutine.
func (d *driver) perform(ctx context.Context, e loop.Effect, v *engine.View) commands.Command {
	return d.agent.runner.Perform(ctx, e, v, host{d})
}

// host performs what is particular to a node: tools run on workers, models are opened by name.
type host struct{ d *driver }

// OpenModel opens the session's model.
func (h host) OpenModel(e loop.CallModel, v *engine.View) (model.Model, commands.Command) {
	h.d.node.cfg.Metrics.EffectStarted("model")
	m, err := h.d.node.models.open(v.Config.Model, v.Config.ModelData)
	if err != nil {
		return nil, h.d.unopened(e, err)
	}
	return m, nil
}

// RunTool dispatches the call to a worker.
func (h host) RunTool(ctx context.Context, e loop.RunTool, v *engine.View) commands.Command {
	h.d.node.cfg.Metrics.EffectStarted("tool")
	return h.d.dispatch(ctx, e, v)
}

// StopTool stops the call's worker and its sub-agent.
func (h host) StopTool(ctx context.Context, e loop.StopTool, _ *engine.View) commands.Command {
	return h.d.stopTool(ctx, e)
}

// Verifier returns none: verifiers run on workers, as calls.
func (host) Verifier() (extension.Verifier, string) { return nil, "" }

// Due returns when a timer is reported.
func (host) Due(e loop.ArmTimer) time.Time { return due(e) }

// Publish shows a live event to clients and observers.
func (h host) Publish(ev events.Event) { h.d.publish(ev) }

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

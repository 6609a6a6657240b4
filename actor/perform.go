package actor

import (
	"context"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// maxOpenTasks limits a session's calls on one queue, so that a session with thousands of calls does not hold
// up the others. The rest stay pending.
const maxOpenTasks = 16

// sync makes the running effects equal to the owed ones. Before anything that costs or acts,
// the lease must be fresh.
func (d *driver) sync(context.Context) error {
	owed := d.owedNow()
	if d.leaving { // a call that this process no longer runs ends at once
		owed = slices.DeleteFunc(owed, func(e loop.Effect) bool {
			c, ok := e.(loop.RunTool)
			return !d.performer.Has(e.Identity()) && (!ok || !runsHere(c.Call))
		})
	}
	return d.performer.Sync(owed, func() (*engine.View, error) {
		if !d.lease.Fresh() {
			return nil, ErrLeaseLost
		}
		return d.View(owed), nil
	})
}

// owedNow returns what the session owes, less the calls beyond maxOpenTasks. A dispatched call
// is done for the performer, but stays owed until its report arrives.
func (d *driver) owedNow() []loop.Effect {
	owed, calls := d.allOwed(), 0
	for _, e := range owed {
		if _, ok := e.(loop.RunTool); ok {
			calls++
		}
	}
	if calls <= maxOpenTasks {
		return owed
	}
	open := make(map[string]int) // by queue
	for _, e := range owed {
		if e, ok := e.(loop.RunTool); ok && d.performer.Has(e.Identity()) {
			open[e.Call.Routing.Queue]++
		}
	}
	return slices.DeleteFunc(owed, func(e loop.Effect) bool {
		call, ok := e.(loop.RunTool)
		if !ok || d.performer.Has(e.Identity()) {
			return false
		}
		open[call.Call.Routing.Queue]++
		return open[call.Call.Routing.Queue] > maxOpenTasks
	})
}

// allOwed returns everything that the session owes, with the verifier of its task as a call. The call is
// dispatched, recovered after a crash and stopped like any other. A verifier that is no longer owed but has no
// verdict must be stopped.
func (d *driver) allOwed() []loop.Effect {
	owed := slices.DeleteFunc(loop.Pending(d.State), func(e loop.Effect) bool {
		v, ok := e.(loop.Verify)
		return ok && len(v.Command) == 0 // a function in the client that started the task; the client reports
	})
	runs := false
	for i, e := range owed {
		switch e := e.(type) { //nolint:gochecksumtype // only verifiers become calls
		case loop.Verify:
			d.placeVerifier(e)
			owed[i], runs = loop.RunTool{Session: d.State.Session, Call: d.verifier}, true
		case loop.StopVerify: // perhaps another driver's
			if d.State.Task.Spec.VerifierFunc {
				continue // its client sees the cancel
			}
			d.placeVerifier(loop.Verify{Task: e.Task, Attempt: e.Attempt})
		}
	}
	if c := d.verifier; c.Routing.Queue != "" && !runs {
		owed = append(owed, loop.StopTool{Call: c.ID, Place: c.Place, Queue: c.Routing.Queue, Reason: "the task no longer waits for its verifier"})
	}
	return owed
}

// atRest reports whether nothing needs this process: no work, nothing to dispatch, no call that runs here
// (even a canceled one), and none that is lost unless a worker comes.
func (d *driver) atRest() bool {
	return d.State.Parkable() && len(d.unmanned) == 0 && !d.performer.Stopping(isCall) && !slices.ContainsFunc(d.owedNow(), func(e loop.Effect) bool {
		return isCall(e.Identity()) && !d.performer.Done(e.Identity())
	})
}

// isCall reports whether an effect is about a task queue, given its identity.
func isCall(id string) bool {
	return strings.HasPrefix(id, "tool/") || strings.HasPrefix(id, "stop/tool/")
}

// perform performs one effect in its own goroutine. The driver is the host: tools run on workers, and models
// are opened by name.
func (d *driver) perform(ctx context.Context, e loop.Effect, v *engine.View) commands.Command {
	runner := d.agent.Load().runner
	switch e.(type) { //nolint:gochecksumtype // other effects are not about notes
	case loop.Recall, loop.StoreMemory: // notes of a sealed session would outlive it
		if sealed, err := d.node.cell.IsSealed(ctx, d.token.Session()); sealed || err != nil {
			runner = runner.WithoutNotes()
		}
	}
	return runner.Perform(ctx, e, v, d)
}

// OpenModel opens the session's model.
func (d *driver) OpenModel(e loop.CallModel, v *engine.View) (model.Model, commands.Command) {
	d.node.cfg.Metrics.EffectStarted("model")
	m, err := d.node.openModel(v.Config.Model, v.Config.ModelData)
	if err != nil {
		return nil, d.unopened(e, err)
	}
	return m, nil
}

// Verifier returns none. Verifiers run as calls on workers, or in the clients that started the tasks.
func (*driver) Verifier() (extension.Verifier, string) { return nil, "" }

// Publish sends a live event to clients and observers. It may be lost.
func (d *driver) Publish(ev events.Event) {
	if err := d.node.cell.Live().Publish(d.token.Session(), ev); err != nil {
		d.log.Debug("live event lost", zap.Error(err))
	}
}

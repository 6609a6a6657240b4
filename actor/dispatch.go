package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// dispatchAgain is the pause before a queue that could not be reached is tried again.
const dispatchAgain = 500 * time.Millisecond

// RunTool publishes a call. Its outcome arrives as a command. A call that may run twice goes directly to a
// worker, and RunTool waits while the worker holds it. Any other call, and one that no worker holds, goes to its
// queue. If it is uncertain whether the call is there, RunTool asks the queue. A call that is not there may have
// been there and ended, so the driver reads the inbox before it tries again.
func (d *driver) RunTool(ctx context.Context, e loop.RunTool, v *engine.View) commands.Command {
	d.node.cfg.Metrics.EffectStarted("tool")
	c := e.Call
	if unplaced(c) {
		return d.awaitVerifiers(ctx, e)
	}
	t := d.taskFor(e, v)
	switch local := d.node.cfg.Local; {
	case runsHere(c) && local != nil:
		return runLocal(ctx, local, c, t)
	case runsHere(c):
		return unrunnable(c, tool.CodeFailed, "node %s does not have the tool %s: give all nodes the same tools", d.node.cfg.Name, c.Name)
	case !content.IsToken(c.Routing.Queue):
		return unrunnable(c, tool.CodeFailed, "no worker's queue has the tool %s", c.Name)
	}
	t.Ticket = d.node.tickets.Of(t.Session, c.Place, c.Attempt)
	if mayBeDirect(c) && d.node.direct.Run(ctx, t) {
		return nil
	}
	err := d.node.tasks.Dispatch(ctx, t)
	queued, unclear := err == nil || errors.Is(err, task.ErrQueued), errors.Is(err, jetstream.ErrUnclear)
	for ; !queued && err != nil; queued, err = d.node.tasks.Queued(ctx, t) {
		d.warn("call not put on its queue", zap.String("place", string(c.Place)), zap.Error(err))
		if !pause.For(ctx, dispatchAgain) {
			return nil
		}
	}
	switch {
	case queued: // the effect is done
	case unclear && !c.Routing.Effects.Retryable():
		d.fail(errUnsettled)
	default:
		d.reportMissing(ctx, e.Identity())
	}
	return nil
}

// taskFor returns the task of a call.
func (d *driver) taskFor(e loop.RunTool, v *engine.View) task.Task {
	c, t := e.Call, d.taskOf(e)
	t.Turn, t.Call, t.Tool, t.Input = c.Turn, c.ID, c.Name, c.EffectiveInput()
	t.Effects, t.Declared = c.Routing.Effects, c.Routing.DeclaredEffects()
	t.Deadline, t.Timeout, t.MaxOutput = c.Deadline, c.Routing.Timeout, c.Routing.MaxOutput
	if c.Name != loop.VerifierTool { // a verifier is a command of the user, not a call of the model
		t.Policy = d.agent.Load().Policy
	}
	t.Wake = c.InBackground() || c.Routing.Route != content.Foreground
	t.Direct = mayBeDirect(c) && !t.Wake
	t.TraceParent, t.Baggage = d.sender.Load().Of(t.Session, c.Turn, c.Place, c.Attempt)
	t.IdempotencyKey = string(t.Session) + "/" + string(c.Place)
	t.Epoch, t.Decided = v.Epoch, d.node.clock.comparable(v.At)
	return t
}

// mayBeDirect reports whether a worker may hold a call without its queue. A call in the background may be a
// detached one, which was sent before.
func mayBeDirect(c loop.Call) bool {
	return c.Routing.Effects.Retryable() && c.Name != loop.VerifierTool
}

// taskOf returns a task with only what identifies the call.
func (d *driver) taskOf(e loop.RunTool) task.Task {
	c := e.Call
	return task.Task{Session: d.token.Session(), Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Approved: c.Approved}
}

// unrunnable returns the result of a call that no worker can run.
func unrunnable(c loop.Call, code, format string, args ...any) commands.Command {
	return commands.ReportResult{
		Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue,
		Outcome: tool.Failed(tool.Call{ID: c.ID, Name: c.Name}, tool.Failure(code, format, args...)),
	}
}

// runsHere reports whether a call uses one of the node's own tools.
func runsHere(c loop.Call) bool { return c.Routing.Queue == task.LocalQueue }

// runLocal runs a call on the worker of this process. It returns nil if the call is lost with this driver;
// the next driver records that.
func runLocal(ctx context.Context, local *task.Local, c loop.Call, t task.Task) commands.Command {
	r, err := local.Run(ctx, t)
	switch {
	case err == nil:
		_, report := jetstream.CommandOf(r, t)
		return report
	case errors.Is(err, task.ErrClosed) && !t.Effects.Retryable(): // the call did not start; nil would count it as lost
		return unrunnable(c, worker.CodeNotRun, "its node was stopped before the call began; nothing was done")
	}
	return nil
}

// callsHere returns the calls that run in this process, or ran in that of the last driver.
func (d *driver) callsHere() []loop.RunTool {
	var out []loop.RunTool
	for _, e := range d.allOwed() {
		if c, ok := e.(loop.RunTool); ok && runsHere(c.Call) {
			out = append(out, c)
		}
	}
	return out
}

// busyHere reports whether a call runs in this process, even if it was canceled, or has a report that was not
// handled yet.
func (d *driver) busyHere() bool {
	return d.performer.Stopping(isCall) || slices.ContainsFunc(d.callsHere(), func(e loop.RunTool) bool { return !d.performer.Done(e.Identity()) })
}

// errUnsettled ends a driver whose task may still arrive on its queue, after another task of the same call.
// The next driver fences off all of this one's tasks.
var errUnsettled = errors.New("a call that must not run twice may still arrive on its queue")

// reportMissing reports to the driver that a call is not on its queue, although it may have been.
func (d *driver) reportMissing(ctx context.Context, id string) {
	select {
	case d.missing <- id:
	case <-ctx.Done():
	}
}

// StopTool ends the session that works for a call, if there is one, and stops the call's worker. It retries
// until both have received the request.
func (d *driver) StopTool(ctx context.Context, e loop.StopTool, _ *engine.View) commands.Command {
	var report commands.Command
	err := d.until(ctx, e.Place, "end of a call not forwarded", func() (err error) {
		report, err = d.stopSubagent(ctx, e)
		return err
	})
	if err == nil && report == nil && e.Held == nil {
		_ = d.stopWorker(ctx, e)
	}
	return report
}

// stopWorker tells a call's worker to stop. A call in this process ends with its effect.
func (d *driver) stopWorker(ctx context.Context, e loop.StopTool) error {
	if e.Queue == task.LocalQueue {
		return nil
	}
	return d.until(ctx, e.Place, "worker of a call not stopped", func() error {
		return d.node.tasks.Cancel(ctx, e.Queue, d.token.Session(), e.Place, e.Reason)
	})
}

// until retries f until it succeeds or ctx ends.
func (d *driver) until(ctx context.Context, place content.Place, warning string, f func() error) error {
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		d.log.Warn(warning, zap.String("place", string(place)), zap.Error(err))
		if !pause.For(ctx, dispatchAgain) {
			return err
		}
	}
}

// unmanned is a call whose queue has no worker.
type unmanned struct {
	since time.Time
	told  periodic
}

// tellUnmanned is how often a driver tells the followers of a session that a call waits for a worker.
const tellUnmanned = 10 * time.Second

// awaitWorkers tells the followers of the session which calls wait for a worker. Calls that have waited too
// long are lost, and a person decides about them. By then a worker that restarts is back, and so is its
// replacement.
func (d *driver) awaitWorkers(ctx context.Context, now time.Time) error {
	before, lost := d.unmanned, false
	if len(before) == 0 && d.callsNothing() {
		return nil
	}
	d.unmanned = make(map[string]*unmanned)
	for _, e := range d.openCalls() {
		id, c := e.Identity(), e.Call
		if d.node.offers.Manned(c.Routing.Queue) {
			continue
		}
		u, known := before[id]
		if !known { // reported at the next beat, once followers have received its dispatch
			u = &unmanned{since: now, told: periodic{period: tellUnmanned}}
		}
		patience := d.node.cfg.WorkerPatience
		left := patience - now.Sub(u.since)
		if left > 0 {
			d.unmanned[id] = u
			if known && u.told.due(now) {
				d.Publish(events.ToolProgress{Call: c.ID, Text: fmt.Sprintf("waits for a worker of queue %s, for another %v", c.Routing.Queue, left.Round(time.Second))})
			}
			continue
		}
		lost = true
		d.log.Warn("call lost: no worker came", zap.String("place", string(c.Place)), zap.String("queue", c.Routing.Queue))
		err := d.decide(ctx, d.envelope("unmanned/"+id, commands.ReportAttemptLost{
			Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Last: true,
			Reason: fmt.Sprintf("its queue %s had no worker for %v", c.Routing.Queue, patience),
		}))
		if err != nil {
			return err
		}
	}
	if lost {
		return d.sync(ctx)
	}
	return nil
}

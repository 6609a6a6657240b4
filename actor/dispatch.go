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
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// postAgain is how long after a failure something is posted to a queue again.
const postAgain = 500 * time.Millisecond

// lostWord is how long behind the timer of a call's deadline its queue may take to
// say that the worker was lost: a lease, and the next worker's report. Until then
// nobody can say that the call merely took too long; a worker that lives says so
// itself.
const lostWord = 40 * time.Second

// due is when a timer is reported.
func due(e loop.ArmTimer) time.Time {
	if e.Kind == commands.TimerDeadline {
		return e.At.Std().Add(lostWord)
	}
	return e.At.Std()
}

// dispatch publishes a call. Its outcome comes as a command. If it is not certain
// that the call is on its queue, the queue is asked; a call that is not there may
// have been there and be over, so the driver reads the inbox before another try.
func (d *Driver) dispatch(ctx context.Context, e loop.RunTool) commands.Command {
	c, s := e.Call, d.token.Session()
	if unplaced(c) {
		return d.awaitGates(ctx, e)
	}
	if !content.IsToken(c.Routing.Queue) {
		err := tool.Failure(tool.CodeFailed, "no worker's queue has the tool %s", c.Name)
		return commands.ReportResult{
			Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue,
			Outcome: tool.Failed(tool.Call{ID: c.ID, Name: c.Name}, err),
		}
	}
	t := task.Task{
		Session: s, Turn: c.Turn, Call: c.ID, Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue,
		Tool: c.Name, Input: c.EffectiveInput(), Effects: c.Routing.Effects, Deadline: c.Deadline, Approved: c.Approved,
		Timeout: c.Routing.Timeout, MaxOutput: c.Routing.MaxOutput, Policy: d.policyOf(c),
		Wake: c.InBackground() || c.Routing.Route != content.Foreground, IdempotencyKey: string(s) + "/" + string(c.Place),
		Ticket: d.node.tickets.Of(s, c.Place, c.Attempt),
	}
	if v := d.view.Load(); v != nil {
		t.Epoch, t.Decided = v.epoch, v.decided
	}
	err := d.node.tasks.Dispatch(ctx, t)
	queued, unclear := err == nil || errors.Is(err, task.ErrQueued), errors.Is(err, jetstream.ErrUnclear)
	for ; !queued && err != nil; queued, err = d.node.tasks.Queued(ctx, t) {
		d.log.Warn("call could not be put on its queue", zap.String("place", string(c.Place)), zap.Error(err))
		if !pause(ctx, postAgain) {
			return nil
		}
	}
	if queued {
		d.posted.set(e.Identity(), true)
		return nil
	}
	if unclear && !c.Routing.Effects.Retryable() {
		d.fail(errUnsettled)
		return nil
	}
	d.missing(ctx, e.Identity())
	return nil
}

// errUnsettled ends a driver whose task may yet arrive on its queue, behind another one of the
// same call: its successor fences it off, like all tasks of this one.
var errUnsettled = errors.New("a call that must not run twice may yet arrive on its queue")

// stopTool sees to it that a call stops: the session that works for it, if one does, and
// its worker. It tries until somebody has heard it.
func (d *Driver) stopTool(ctx context.Context, e loop.StopTool) commands.Command {
	report, err := d.passOn(ctx, e)
	for ; err != nil; report, err = d.passOn(ctx, e) {
		if ctx.Err() != nil {
			return nil
		}
		d.log.Warn("the end of a call could not be passed on", zap.String("place", string(e.Place)), zap.Error(err))
		if !pause(ctx, postAgain) {
			return nil
		}
	}
	if report == nil && e.Held == nil && !d.tellWorkers(ctx, e) {
		return nil
	}
	d.posted.set(e.Identity(), true)
	return report
}

// tellWorkers tells a call's worker to stop, and reports whether that was sent.
func (d *Driver) tellWorkers(ctx context.Context, e loop.StopTool) bool {
	for {
		err := d.node.tasks.Cancel(ctx, e.Queue, d.token.Session(), e.Place, e.Reason)
		if err == nil {
			return true
		}
		d.log.Warn("call could not be told to stop", zap.String("place", string(e.Place)), zap.Error(err))
		if !pause(ctx, postAgain) {
			return false
		}
	}
}

// missing tells the driver of a call that is not on its queue, and was perhaps.
func (d *Driver) missing(ctx context.Context, id string) {
	select {
	case d.unposted <- id:
	case <-ctx.Done():
	}
}

// repost lets calls that are not on their queues be published, if the inbox says
// nothing of them.
func (d *Driver) repost(ctx context.Context, ids ...string) error {
	if err := d.handleInbox(ctx); err != nil {
		return err
	}
	if err := d.giveUpUnproven(ctx, ids); err != nil {
		return err
	}
	for _, id := range ids {
		d.posted.set(id, false)
		d.performer.Forget(id)
	}
	return d.sync(ctx)
}

// recover finds out which open calls are on their queues, then reads the inbox,
// and only then lets the others be published again. In any other order a call
// could run twice: a worker reports before it takes its task off the queue.
//
// What the driver before may still have on its way to a queue is fenced off first.
func (d *Driver) recover(ctx context.Context) error {
	if err := d.fence(ctx); err != nil {
		return err
	}
	var gone []string
	for _, c := range d.openCalls() {
		queued, err := d.isQueued(ctx, c)
		if err != nil {
			return err
		}
		d.posted.set(c.Identity(), queued)
		if !queued {
			gone = append(gone, c.Identity())
		}
	}
	if err := d.handleInbox(ctx); err != nil {
		return err
	}
	if err := d.giveUpUnproven(ctx, gone); err != nil {
		return err
	}
	return d.sync(ctx)
}

// fence keeps what earlier drivers of the session have on the queues, or may yet publish,
// from being begun, if it must not run twice.
func (d *Driver) fence(ctx context.Context) error {
	once := func(e loop.RunTool) bool { return !e.Call.Routing.Effects.Retryable() }
	if d.state.Epoch <= 1 || !slices.ContainsFunc(d.openCalls(), once) {
		return nil
	}
	if err := d.node.cell.Tasks().Fence(ctx, d.token.Session(), d.state.Epoch); err != nil {
		return fmt.Errorf("fence off earlier drivers: %w", err)
	}
	return nil
}

// overtaken hears that a task was not run since it is an earlier driver's, and takes it off
// its queue, in case that whoever says so did not live to do it. If the call has to run, it is
// dispatched anew once the inbox was read to its end: an own dispatch may have been run
// meanwhile.
func (d *Driver) overtaken(ctx context.Context, r commands.ReportOvertaken) error {
	for _, e := range d.openCalls() {
		if e.Call.Place != r.Place || e.Call.Attempt != r.Attempt {
			continue
		}
		gone, err := d.node.cell.Tasks().TakeOff(ctx, d.taskOf(e), r.Task)
		if err != nil {
			return err
		}
		if gone {
			d.again = append(d.again, e.Identity())
		}
	}
	return nil
}

// dispatchAgain lets the calls be dispatched again that were overtaken.
func (d *Driver) dispatchAgain() {
	for _, id := range d.again {
		d.posted.set(id, false)
		d.performer.Forget(id)
	}
	d.again = nil
}

// recheck looks after the calls that were on their queues: one that is gone and
// brought nothing is published again.
func (d *Driver) recheck(ctx context.Context) error {
	var gone []string
	for _, c := range d.openCalls() {
		if !d.posted.has(c.Identity()) {
			continue
		}
		queued, err := d.isQueued(ctx, c)
		if err != nil {
			return err
		}
		if !queued {
			gone = append(gone, c.Identity())
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return d.repost(ctx, gone...)
}

func (d *Driver) openCalls() []loop.RunTool {
	var out []loop.RunTool
	for _, e := range d.pending() {
		if c, ok := e.(loop.RunTool); ok && !unplaced(c.Call) {
			out = append(out, c)
		}
	}
	return out
}

func (d *Driver) isQueued(ctx context.Context, e loop.RunTool) (bool, error) {
	c := e.Call
	queued, err := d.node.tasks.Queued(ctx, d.taskOf(e))
	if err != nil {
		return false, fmt.Errorf("look for %s on its queue: %w", c.Place, err)
	}
	return queued, nil
}

// taskOf is a call's dispatch, as far as it takes to find it.
func (d *Driver) taskOf(e loop.RunTool) task.Task {
	c := e.Call
	return task.Task{Session: d.token.Session(), Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Approved: c.Approved}
}

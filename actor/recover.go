package actor

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/loop"
)

// recover finds out which open calls are on their queues, then reads the inbox, and only then
// lets the others be dispatched again. In any other order a call could run twice: a worker
// reports before it takes its task off the queue.
//
// First it fences off what the driver before may still have on its way to a queue.
func (d *driver) recover(ctx context.Context) error {
	if err := d.fence(ctx); err != nil {
		return err
	}
	gone, err := d.gone(ctx, d.openCalls())
	if err != nil {
		return err
	}
	return d.redispatch(ctx, gone...)
}

// recheck looks for the calls that were on their queues: one that is gone without a report is
// dispatched again.
func (d *driver) recheck(ctx context.Context) error {
	open := slices.DeleteFunc(d.openCalls(), func(e loop.RunTool) bool { return !d.dispatched.has(e.Identity()) })
	gone, err := d.gone(ctx, open)
	if err != nil || len(gone) == 0 {
		return err
	}
	return d.redispatch(ctx, gone...)
}

// gone asks the queues for calls, and lists those that are not there.
func (d *driver) gone(ctx context.Context, calls []loop.RunTool) (gone []string, err error) {
	for _, e := range calls {
		queued, err := d.node.tasks.Queued(ctx, d.taskOf(e))
		if err != nil {
			return nil, fmt.Errorf("look for %s on its queue: %w", e.Call.Place, err)
		}
		d.dispatched.set(e.Identity(), queued)
		if !queued {
			gone = append(gone, e.Identity())
		}
	}
	return gone, nil
}

// redispatch lets calls that are not on their queues be dispatched, if the inbox holds no
// report of them.
func (d *driver) redispatch(ctx context.Context, ids ...string) error {
	if err := d.handleInbox(ctx); err != nil {
		return err
	}
	if err := d.loseUnproven(ctx, ids); err != nil {
		return err
	}
	d.forget(ids...)
	return d.sync(ctx)
}

// forget lets calls be dispatched again.
func (d *driver) forget(ids ...string) {
	for _, id := range ids {
		d.dispatched.set(id, false)
		d.performer.Forget(id)
	}
}

// openCalls are the calls that wait for their workers.
func (d *driver) openCalls() []loop.RunTool {
	var out []loop.RunTool
	for _, e := range d.pending() {
		if c, ok := e.(loop.RunTool); ok && !unplaced(c.Call) {
			out = append(out, c)
		}
	}
	return out
}

// fence keeps workers from starting what earlier drivers of the session have on the queues, or
// may yet publish, if it must not run twice.
func (d *driver) fence(ctx context.Context) error {
	once := func(e loop.RunTool) bool { return !e.Call.Routing.Effects.Retryable() }
	if d.State.Epoch <= 1 || !slices.ContainsFunc(d.openCalls(), once) {
		return nil
	}
	if err := d.node.cell.Tasks().Fence(ctx, d.token.Session(), d.State.Epoch); err != nil {
		return fmt.Errorf("fence off earlier drivers: %w", err)
	}
	return nil
}

// takeOvertaken takes a task off its queue that a worker refused because an earlier driver
// dispatched it: the worker may have died before it did. If the call has to run, it is
// dispatched again once the inbox was read to its end: this driver's own dispatch may have
// been run meanwhile.
func (d *driver) takeOvertaken(ctx context.Context, r commands.ReportOvertaken) error {
	for _, e := range d.openCalls() {
		if e.Call.Place != r.Place || e.Call.Attempt != r.Attempt {
			continue
		}
		gone, err := d.node.cell.Tasks().TakeOff(ctx, d.taskOf(e), r.Task)
		if err != nil {
			return err
		}
		if gone {
			d.overtaken = append(d.overtaken, e.Identity())
		}
	}
	return nil
}

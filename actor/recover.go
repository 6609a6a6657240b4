package actor

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
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

// A report counts only with the ticket of the dispatch that it is about: only a worker that
// got the task from its queue has the ticket. What the report itself says of its queue
// proves nothing. Calls that a node without tickets dispatched have none, and the journal
// says which those are.
//
// A report without its ticket is passed over. Most likely it is forged. But it may also come
// from a worker of a release without tickets, which then takes the task off its queue. A call
// that is gone from its queue after such a report must not run again as if it had never
// started: its attempt is lost.

// vouched reports whether a command of the lane of reports comes from the worker that got
// the task. It remembers the calls that run and were reported on without a ticket.
func (d *driver) vouched(m jetstream.Message) bool {
	place, attempt := reportedOn(m.Envelope.Command)
	if d.node.tickets.Fits(m.Ticket, d.State.Session, place, attempt) {
		return true
	}
	call, known := d.State.CallAt(place)
	if !known {
		if stopping, ok := d.State.StoppingCall(place); ok {
			call, known = &stopping, true
		}
	}
	if known && !call.Ticketed {
		return true
	}
	if known && call.Running() && call.Attempt == attempt {
		if d.unproven == nil {
			d.unproven = make(map[string]bool)
		}
		d.unproven[loop.RunTool{Session: d.State.Session, Call: *call}.Identity()] = true
	}
	return false
}

// reportedOn is what a report is about.
func reportedOn(c commands.Command) (content.Place, int) {
	switch r := c.(type) { //nolint:gochecksumtype // the others are not reports of workers
	case commands.ReportResult:
		return r.Place, r.Attempt
	case commands.ReportAttemptLost:
		return r.Place, r.Attempt
	case commands.ReportOvertaken:
		return r.Place, r.Attempt
	case commands.ReportQuestion:
		return r.Place, r.Attempt
	}
	return "", 0
}

// loseUnproven reports the attempts lost of calls that are gone from their queues, and were
// reported on only without a ticket.
func (d *driver) loseUnproven(ctx context.Context, ids []string) error {
	if len(d.unproven) == 0 {
		return nil
	}
	for _, e := range d.openCalls() {
		id, c := e.Identity(), e.Call
		if !d.unproven[id] || !slices.Contains(ids, id) {
			continue
		}
		d.log.Warn("call is gone from its queue, and its worker showed no ticket", zap.String("place", string(c.Place)))
		err := d.decide(ctx, d.envelope("unproven/"+id, commands.ReportAttemptLost{
			Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue,
			Reason: "a report came without the ticket of the call, and the task is gone: its worker is of an earlier release, or the report was forged",
		}))
		if err != nil {
			return err
		}
	}
	clear(d.unproven)
	return nil
}

package actor

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

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
	case commands.ReportGate:
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

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

// A report counts only with the ticket of the dispatch that it is about: whoever has the
// ticket got the task, from the queue that it was dispatched to. What the report itself
// says of its queue is its sender's word. Calls that a node without tickets dispatched
// have none, and the journal says which those are.
//
// A report without its ticket is passed over. Most likely it is forged. But it may also
// come from a worker of a release without tickets, which then takes the task off its
// queue. A call that has gone from its queue after such a report must not run again as
// if nobody had begun it: its attempt is lost.

// vouched reports whether a command of the lane of reports comes from who got the task
// that it is about. Of a call that needs no ticket, and has not run yet, it takes note.
func (d *Driver) vouched(m jetstream.Message) bool {
	place, attempt := reportedOn(m.Envelope.Command)
	if d.node.tickets.Fits(m.Ticket, d.state.Session, place, attempt) {
		return true
	}
	call, known := d.state.CallAt(place)
	if !known {
		if stopped, ok := d.state.StoppingCall(place); ok {
			call, known = &stopped, true
		}
	}
	if known && !call.Ticketed {
		return true
	}
	if known && call.Running() && call.Attempt == attempt {
		if d.unproven == nil {
			d.unproven = make(map[string]bool)
		}
		d.unproven[loop.RunTool{Session: d.state.Session, Call: *call}.Identity()] = true
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

// giveUpUnproven takes the attempts for lost, of calls that are not on their queues any
// more, about which nothing came but a report without their ticket.
func (d *Driver) giveUpUnproven(ctx context.Context, ids []string) error {
	if len(d.unproven) == 0 {
		return nil
	}
	for _, e := range d.openCalls() {
		id := e.Identity()
		if !d.unproven[id] || !slices.Contains(ids, id) {
			continue
		}
		c := e.Call
		d.log.Warn("call is gone from its queue, and its worker showed no ticket", zap.String("place", string(c.Place)))
		err := d.decide(ctx, commands.Envelope{
			ID: "unproven/" + id, Session: d.state.Session, By: d.node.cfg.Name,
			Command: commands.ReportAttemptLost{
				Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue,
				Reason: "a report came without the ticket of the call, and the task is gone: its worker is of an earlier release, or the report was forged",
			},
		})
		if err != nil {
			return err
		}
	}
	clear(d.unproven)
	return nil
}

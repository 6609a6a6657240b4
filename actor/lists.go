package actor

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// The cell lists the sessions that hold something for a person to decide: open approvals, and
// dead letters. A session enters a list before the entry is written that brings the first of
// them, so that none is ever missing; it leaves after the entry that settles the last. A
// crash in between leaves it on the list until the session's next driver looks. Readers of a
// list read the journals, too, so a name too many does no harm.

// listing is the driver's session on one list.
type listing struct {
	list   *jetstream.List
	of     string
	waits  func(*loop.State) bool    // the session belongs on the list
	brings func([]events.Event) bool // these events may put it there
	note   uint64                    // the note on the list; 0: none
}

func listings(c *jetstream.Cell) []*listing {
	return []*listing{
		{list: c.Approvals(), of: "open approvals", waits: func(s *loop.State) bool { return len(s.PendingApprovals()) > 0 }, brings: asks},
		{list: c.DeadLetters(), of: "dead letters", waits: func(s *loop.State) bool { return len(s.DeadLetters()) > 0 }, brings: loses},
	}
}

// asks reports whether the events ask something that they do not settle.
func asks(evs []events.Event) bool {
	var open []content.ApprovalID
	for _, ev := range evs {
		switch ev := any(ev).(type) {
		case events.ApprovalRequired:
			open = append(open, ev.Approval.ID)
		case events.ApprovalResolved:
			open = slices.DeleteFunc(open, func(id content.ApprovalID) bool { return id == ev.Approval })
		}
	}
	return len(open) > 0
}

// loses reports whether the events may leave a dead letter.
func loses(evs []events.Event) bool {
	return slices.ContainsFunc(evs, func(ev events.Event) bool {
		_, lost := ev.(events.ToolAttemptLost)
		return lost
	})
}

// enterLists puts the session on the lists where it belongs once the events are written.
func (d *driver) enterLists(ctx context.Context, evs []events.Event) (err error) {
	for _, l := range d.listings {
		if l.note == 0 && l.brings(evs) {
			if l.note, err = l.list.Note(ctx, d.State.Session); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveLists takes the session off the lists where it does not belong any more.
func (d *driver) leaveLists(ctx context.Context) {
	for _, l := range d.listings {
		if l.note == 0 || l.waits(d.State) {
			continue
		}
		if err := l.list.Strike(ctx, d.State.Session, l.note); err != nil {
			d.log.Warn("session stays on a list", zap.String("list", l.of), zap.Error(err))
			continue
		}
		l.note = 0
	}
}

// settleLists makes the lists agree with the journal of a session that was just claimed: the
// driver before may have died, or been of a release without lists.
func (d *driver) settleLists(ctx context.Context) (err error) {
	for _, l := range d.listings {
		switch {
		case l.waits(d.State):
			l.note, err = l.list.Note(ctx, d.State.Session)
		case d.Parked || d.State.Turns == 0: // the driver that parked it with nothing open has struck it out
		default:
			l.note, err = l.list.Noted(ctx, d.State.Session)
		}
		if err != nil {
			return fmt.Errorf("list of %s: %w", l.of, err)
		}
	}
	d.leaveLists(ctx)
	return nil
}

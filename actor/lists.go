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

// The cell has lists of the sessions that hold something for a person to decide: open
// approvals, and dead letters. A session is noted before the entry is written that
// brings the first of them, so that none is ever missing from the list; it is struck out
// after the entry that settles the last, so that a death in between leaves it on the list
// until the session's next driver looks.

// listing is the driver's session on one list. Whoever reads the list reads the journal,
// too, so a name too many does no harm.
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
	var open map[content.ApprovalID]bool
	for _, ev := range evs {
		switch ev := any(ev).(type) {
		case events.ApprovalRequired:
			if open == nil {
				open = make(map[content.ApprovalID]bool)
			}
			open[ev.Approval.ID] = true
		case events.ApprovalResolved:
			delete(open, ev.Approval)
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

// enlist puts the session on the lists that it has to be on once the events are written.
func (d *Driver) enlist(ctx context.Context, evs []events.Event) error {
	for _, l := range d.listings {
		if l.note != 0 || !l.brings(evs) {
			continue
		}
		if err := l.enter(ctx, d.state.Session); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) enter(ctx context.Context, s content.SessionID) (err error) {
	l.note, err = l.list.Note(ctx, s)
	return err
}

// strike takes the session off the lists that it does not belong on any more.
func (d *Driver) strike(ctx context.Context) {
	for _, l := range d.listings {
		if l.note == 0 || l.waits(d.state) {
			continue
		}
		if err := l.list.Strike(ctx, d.state.Session, l.note); err != nil {
			d.log.Warn("session stays on a list", zap.String("list", l.of), zap.Error(err))
			continue
		}
		l.note = 0
	}
}

// settleLists makes the lists say of a session that was just claimed what its journal
// says: the driver before may have died, or been of a release that knew no list.
func (d *Driver) settleLists(ctx context.Context) error {
	for _, l := range d.listings {
		if err := d.settleList(ctx, l); err != nil {
			return fmt.Errorf("list of %s: %w", l.of, err)
		}
	}
	d.strike(ctx)
	return nil
}

func (d *Driver) settleList(ctx context.Context, l *listing) (err error) {
	switch {
	case l.waits(d.state):
		return l.enter(ctx, d.state.Session)
	case d.parked || d.state.Turns == 0:
		return nil // whoever parked it with nothing open has struck it out
	}
	l.note, err = l.list.Noted(ctx, d.state.Session)
	return err
}

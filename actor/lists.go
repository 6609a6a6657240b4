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

// The cell lists the sessions that wait for a person's decision: open approvals and dead letters. A session
// enters a list before the first such entry is written, so no session is ever missing. It leaves the list
// after the entry that settles the last one. After a crash in between, it stays listed until its next driver
// checks. An extra name does no harm, since readers of a list also read the journals.

// listing is the session's place on one list.
type listing struct {
	list    *jetstream.List
	name    string
	belongs func(*loop.State) bool    // the session belongs on the list
	enters  func([]events.Event) bool // these events may put it there
	note    uint64                    // the session's note on the list; 0: none
}

func listings(c *jetstream.Cell) []*listing {
	return []*listing{{
		list: c.Approvals(), name: "open approvals", enters: opensApproval,
		belongs: func(s *loop.State) bool { return len(s.PendingApprovals()) > 0 },
	}, {
		list: c.DeadLetters(), name: "dead letters", enters: losesAttempt,
		belongs: func(s *loop.State) bool { return len(s.DeadLetters()) > 0 },
	}}
}

// opensApproval reports whether the events request an approval that they do not settle.
func opensApproval(evs []events.Event) bool {
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

// losesAttempt reports whether the events include a lost attempt, which may become a dead letter.
func losesAttempt(evs []events.Event) bool {
	return slices.ContainsFunc(evs, func(ev events.Event) bool {
		_, lost := ev.(events.ToolAttemptLost)
		return lost
	})
}

// enterLists puts the session on the lists where it belongs once the events are written.
func (d *driver) enterLists(ctx context.Context, evs []events.Event) (err error) {
	for _, l := range d.listings {
		if l.note == 0 && l.enters(evs) {
			if l.note, err = l.list.Note(ctx, d.State.Session); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveLists takes the session off the lists where it no longer belongs.
func (d *driver) leaveLists(ctx context.Context) {
	for _, l := range d.listings {
		if l.note == 0 || l.belongs(d.State) {
			continue
		}
		if err := l.list.Strike(ctx, d.State.Session, l.note); err != nil {
			d.log.Warn("session not removed from a list", zap.String("list", l.name), zap.Error(err))
			continue
		}
		l.note = 0
	}
}

// settleLists corrects the lists after a claim: the last driver may have died, or be from a release without
// lists.
func (d *driver) settleLists(ctx context.Context) (err error) {
	for _, l := range d.listings {
		switch {
		case l.belongs(d.State):
			l.note, err = l.list.Note(ctx, d.State.Session)
		case !d.Parked && d.State.Turns > 0: // a driver that parked has already taken the session off
			l.note, err = l.list.Noted(ctx, d.State.Session)
		}
		if err != nil {
			return fmt.Errorf("list of %s: %w", l.name, err)
		}
	}
	d.leaveLists(ctx)
	return nil
}

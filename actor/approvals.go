package actor

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// The cell has a list of the sessions with open approvals. A session is noted before
// the entry is written that opens one, so that no question is ever missing from the
// list; it is struck out after the entry that settles the last, so that a death in
// between leaves it on the list until the session's next driver looks.

// noteQuestions puts the session on the list if the events leave a question open.
func (d *Driver) noteQuestions(ctx context.Context, evs []events.Event) error {
	if d.noted != 0 || !asks(evs) {
		return nil
	}
	return d.note(ctx)
}

func (d *Driver) note(ctx context.Context) (err error) {
	d.noted, err = d.node.cell.Approvals().Note(ctx, d.state.Session)
	return err
}

// asks reports whether the events ask something that they do not settle.
func asks(evs []events.Event) bool {
	open := make(map[content.ApprovalID]bool)
	for _, ev := range evs {
		switch ev := any(ev).(type) {
		case events.ApprovalRequired:
			open[ev.Approval.ID] = true
		case events.ApprovalResolved:
			delete(open, ev.Approval)
		}
	}
	return len(open) > 0
}

// strikeQuestions takes the session off the list if all its questions are answered.
// Whoever reads the list reads the journal, too, so a name too many does no harm.
func (d *Driver) strikeQuestions(ctx context.Context) {
	if d.noted == 0 || len(d.state.Undecided()) > 0 {
		return
	}
	if err := d.node.cell.Approvals().Strike(ctx, d.state.Session, d.noted); err != nil {
		d.log.Warn("session stays on the list of open approvals", zap.Error(err))
		return
	}
	d.noted = 0
}

// settleList makes the list say of a session that was just claimed what its journal
// says: the driver before may have died, or been of a release that knew no list.
func (d *Driver) settleList(ctx context.Context) (err error) {
	if len(d.state.Undecided()) > 0 {
		return d.note(ctx)
	}
	if d.parked || d.state.Turns == 0 {
		return nil // whoever parked it with nothing open has struck it out
	}
	if d.noted, err = d.node.cell.Approvals().Noted(ctx, d.state.Session); err != nil {
		return err
	}
	d.strikeQuestions(ctx)
	return nil
}

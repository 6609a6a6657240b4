package sessions

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// casebook is what a session's journal tells of its calls and their approvals.
type casebook struct {
	state   *loop.State
	tools   map[content.CallID]string
	settled map[content.CallID]settlement // the last of each call
}

// settlement is how an approval was settled.
type settlement struct {
	events.ApprovalResolved
	at content.Time
}

// readCases reads a session's journal.
func readCases(ctx context.Context, cell *jetstream.Cell, id content.SessionID) (*casebook, error) {
	b := &casebook{
		state: loop.New(id), tools: make(map[content.CallID]string), settled: make(map[content.CallID]settlement),
	}
	if err := foldNoting(ctx, cell, b.state, b.note); err != nil {
		return nil, err
	}
	return b, nil
}

// foldNoting folds a new state's journal into it, and shows each event to note.
func foldNoting(ctx context.Context, cell *jetstream.Cell, state *loop.State, note func(any, content.Time)) error {
	id := state.Session
	for rec, err := range cell.Journal().Read(ctx, id, 0) {
		if err != nil {
			return err // it names the session already
		}
		if rec.Err != nil {
			return fmt.Errorf("session %s, entry %d: %w", id, rec.Seq, rec.Err)
		}
		state.Fold(rec.Entry)
		for _, ev := range rec.Entry.Events {
			note(ev, rec.Entry.At)
		}
	}
	if state.Seq == 0 {
		return app.NoSession(id, journal.ErrNotFound)
	}
	return nil
}

// note takes in an event of the kinds that matter here. It comes as any, since a
// switch over events.Event must know all kinds.
func (b *casebook) note(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		b.tools[ev.Call.ID] = ev.Call.Name
	case events.ApprovalResolved:
		b.settled[ev.Call] = settlement{ev, at}
	}
}

// pending returns the oldest undecided approval of a call, or says why there is
// none.
func (b *casebook) pending(call content.CallID) (events.Approval, error) {
	for _, a := range b.state.PendingApprovals() {
		if a.CallID == call {
			return a, nil
		}
	}
	name, known := b.tools[call]
	s, decided := b.settled[call]
	switch {
	case !known:
		return events.Approval{}, fmt.Errorf("session %s has no call %s: \"turnlog approvals ls %s\" lists what is to be decided", b.state.Session, call, b.state.Session)
	case decided:
		return events.Approval{}, fmt.Errorf("%s (call %s) is decided already: %s", name, call, s)
	}
	return events.Approval{}, fmt.Errorf("%s (call %s) needs no approval", name, call)
}

// String says who decided what, and when.
func (s settlement) String() string {
	text := string(s.Outcome)
	if s.Outcome == events.Moot {
		text = "another question about the call was answered with no"
	}
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text + ", " + s.at.String()
}

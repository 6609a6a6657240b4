package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Timers are durable: the server sends the command of a timer that is due into
// its session's inbox, on a lane that nobody else writes. It cannot wake the
// session; whoever sweeps does.
type Timers struct {
	cell *Cell
}

// Timers returns the cell's timers.
func (c *Cell) Timers() *Timers { return &Timers{cell: c} }

// Arm sets a timer of the session; one with the same id is replaced. The timer
// may fire up to a second early or late, and once more than once: whoever
// handles it looks at the clock again.
func (t *Timers) Arm(ctx context.Context, s content.SessionID, id string, at time.Time, env commands.Envelope) error {
	if !content.IsToken(id) || !content.IsToken(string(s)) {
		return fmt.Errorf("arm timer %q of %q: %w", id, s, content.ErrBadID)
	}
	if commands.LaneOf(env.Command) != events.LaneDue {
		return fmt.Errorf("arm timer %s of %s: %s: %w", id, s, commands.NameOf(env.Command), ErrNoLane)
	}
	msg := &nats.Msg{
		Subject: t.cell.names.timer(s, id),
		Header: nats.Header{
			jetstream.ScheduleHeader:       []string{"@at " + at.UTC().Format(time.RFC3339Nano)},
			jetstream.ScheduleTargetHeader: []string{t.cell.names.due(s)},
		},
	}
	if _, err := t.cell.sendEnvelope(ctx, msg, env); err != nil {
		return fmt.Errorf("arm timer %s of %s: %w", id, s, t.cell.explain(ctx, t.cell.names.timersStream(), err))
	}
	return nil
}

// Disarm takes a timer away. One that fired already stays in the inbox.
func (t *Timers) Disarm(ctx context.Context, s content.SessionID, id string) error {
	if err := t.cell.purge(ctx, t.cell.names.timersStream(), t.cell.names.timer(s, id), 0); err != nil {
		return fmt.Errorf("disarm timer %s of %s: %w", id, s, err)
	}
	return nil
}

// DisarmAll takes all timers of a session away.
func (t *Timers) DisarmAll(ctx context.Context, s content.SessionID) error {
	if err := t.cell.purge(ctx, t.cell.names.timersStream(), t.cell.names.timers(s), 0); err != nil {
		return fmt.Errorf("disarm timers of %s: %w", s, err)
	}
	return nil
}

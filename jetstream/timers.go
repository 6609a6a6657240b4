package jetstream

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Timers are durable. When one is due, the server stores its command in the session's inbox, on a lane that
// only the server writes to. It cannot wake the session; a sweep does.
type Timers struct {
	cell *Cell
}

// Timers returns the cell's timers.
func (c *Cell) Timers() *Timers { return &Timers{cell: c} }

// Arm sets a timer of a session and replaces one with the same ID. A timer may fire up to a second
// early or late, and occasionally twice, so its handler checks the clock again.
func (t *Timers) Arm(ctx context.Context, s content.SessionID, id string, at time.Time, env commands.Envelope) error {
	if !content.IsToken(id) || !content.IsToken(string(s)) {
		return fmt.Errorf("arm timer %q of %q: %w", id, s, content.ErrBadID)
	}
	if commands.LaneOf(env.Command) != events.LaneDue {
		return fmt.Errorf("arm timer %s of %s: %s: %w", id, s, commands.NameOf(env.Command), ErrNoLane)
	}
	msg := &nats.Msg{
		Subject: t.cell.names.Timer(s, id),
		Header: nats.Header{
			jetstream.ScheduleHeader:       []string{"@at " + at.UTC().Format(time.RFC3339Nano)},
			jetstream.ScheduleTargetHeader: []string{t.cell.names.Due(s)},
		},
	}
	if _, err := t.cell.sendEnvelope(ctx, msg, env); err != nil {
		return fmt.Errorf("arm timer %s of %s: %w", id, s, t.cell.api.Explain(ctx, t.cell.names.TimersStream(), err))
	}
	return nil
}

// DisarmAll deletes all timers of a session.
func (t *Timers) DisarmAll(ctx context.Context, s content.SessionID) error {
	if err := t.cell.api.Purge(ctx, t.cell.names.TimersStream(), t.cell.names.Timers(s), 0); err != nil {
		return fmt.Errorf("disarm timers of %s: %w", s, err)
	}
	return nil
}

// Alarm says that a timer of a session, or a schedule, is due. Exactly one field is set.
type Alarm struct {
	Session  content.SessionID
	Schedule string // its key
}

// alarmGroup is the queue group in which one member receives each alarm.
const alarmGroup = "nodes"

// Alarms receives timers and schedules that become due, from now until ctx ends. Each alarm reaches one
// receiver in the cell. Some are lost; a sweep finds those. The sequence has one reader.
func (c *Cell) Alarms(ctx context.Context) (iter.Seq[Alarm], error) {
	fired := c.names.Live(c.names.Fired(""))
	raw, err := c.subscribe(ctx, alarmGroup, c.names.Live(c.names.Due(AllSessions)), fired+"*", fired+"*.*")
	if err != nil {
		return nil, fmt.Errorf("listen to alarms: %w", err)
	}
	return func(yield func(Alarm) bool) {
		for msg := range raw {
			a := Alarm{Session: c.names.SessionOf(msg.Subject)}
			if key, ok := strings.CutPrefix(msg.Subject, fired); ok {
				a = Alarm{Schedule: key}
			}
			if a != (Alarm{}) && !yield(a) {
				return
			}
		}
	}, nil
}

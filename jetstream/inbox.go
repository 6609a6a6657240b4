package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// maxAsk is the largest ask. The session's driver keeps it in memory.
const maxAsk = 128 << 20

// ErrNoLane is returned by Send for a command that only hosts or the server originate. It cannot be
// sent.
var ErrNoLane = errors.New("command has no lane")

// Inbox holds the commands of all sessions until they are handled. A session's commands arrive on
// lanes, each with its own permission. The driver records a cursor per lane in the journal.
type Inbox struct {
	cell *Cell
}

// Inbox returns the cell's inbox.
func (c *Cell) Inbox() *Inbox { return &Inbox{cell: c} }

// Message is one command of a session, as it was read or received.
type Message struct {
	Lane     events.Lane
	Seq      uint64 // of the message; the lane's cursor once it is handled
	Last     uint64 // of the lane's previous message; messages between the cursor and it were missed
	Envelope commands.Envelope
	Ticket   string // of the dispatch that a report is about
	Err      error  // commands.ErrBadCommand or ErrBlobMissing: skip it
	Gap      bool   // from a Listener: commands may have been missed, read the inbox
	More     bool   // from Read, which yields no more of its lane: read again
}

// lanes returns the lanes of a session, in the order in which their commands are handled.
func lanes() []events.Lane {
	return []events.Lane{events.LaneAsk, events.LaneDecide, events.LaneReport, events.LaneDue}
}

// lane returns the stream and the subject of a session's lane.
func (c *Cell) lane(s content.SessionID, l events.Lane) (stream, subject string) {
	if l == events.LaneDue {
		return c.names.TimersStream(), c.names.Due(s)
	}
	return c.names.InboxStream(), c.names.Cmd(s, l)
}

// Send puts a command into its session's inbox and returns its sequence there. It retries, so a command
// may arrive twice, with the same ID. It does not wake the session; see Runs.
func (i *Inbox) Send(ctx context.Context, env commands.Envelope) (uint64, error) {
	return i.SendReport(ctx, env, "")
}

// SendReport is Send with the ticket of the dispatch that a report is about.
func (i *Inbox) SendReport(ctx context.Context, env commands.Envelope, ticket string) (uint64, error) {
	lane := commands.LaneOf(env.Command)
	if lane == events.LaneLocal || lane == events.LaneDue {
		return 0, fmt.Errorf("send %s to %s: %w", commands.NameOf(env.Command), env.Session, ErrNoLane)
	}
	if !content.IsToken(string(env.Session)) {
		return 0, fmt.Errorf("send %s: %w: session %q", commands.NameOf(env.Command), content.ErrBadID, env.Session)
	}
	stream, subject := i.cell.lane(env.Session, lane)
	msg := nats.NewMsg(subject)
	if ticket != "" {
		msg.Header.Set(layout.HeaderTicket, ticket)
	}
	seq, err := i.cell.sendEnvelope(ctx, msg, env)
	if err != nil {
		return 0, fmt.Errorf("send %s to %s: %w", env.ID, env.Session, i.cell.api.Explain(ctx, stream, err))
	}
	return seq, nil
}

// sendEnvelope publishes a command with the subject and headers of msg, with retries.
func (c *Cell) sendEnvelope(ctx context.Context, msg *nats.Msg, env commands.Envelope) (seq uint64, err error) {
	data, err := env.Encode()
	if err != nil {
		return 0, err
	}
	if len(data) > maxAsk && commands.LaneOf(env.Command) == events.LaneAsk {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), maxAsk)
	}
	if err := c.pack(ctx, msg, data); err != nil {
		return 0, err
	}
	err = api.Patiently(ctx, func(ctx context.Context) error {
		seq, err = c.api.Publish(ctx, msg)
		return err
	})
	return seq, err
}

// Read yields the commands after the cursors, which name each lane at most once, lane by lane and in
// order: first asks, then decisions, reports and timers. It asks the leaders, so it includes everything
// that was acknowledged before the call. It ends each lane but that of reports after a number of commands;
// 0 means no limit.
func (i *Inbox) Read(ctx context.Context, s content.SessionID, cursors []events.Cursor, most int) iter.Seq2[Message, error] {
	type stored struct {
		api.Message
		err error
	}
	next := func(l events.Lane, after uint64) (m stored) {
		stream, subject := i.cell.lane(s, l)
		m.Message, m.err = i.cell.api.Next(ctx, stream, subject, after+1)
		return m
	}
	return func(yield func(Message, error) bool) {
		first := api.Together(lanes(), func(l events.Lane) stored { return next(l, cursorOf(cursors, l)) })
		for n, l := range lanes() {
			last, m := cursorOf(cursors, l), first[n]
			for count := 1; !errors.Is(m.err, api.ErrNoMessage); count++ {
				msg := Message{Lane: l, Seq: m.Seq, Last: last, Ticket: m.Header.Get(layout.HeaderTicket)}
				msg.More = count == most && l != events.LaneReport
				if m.err == nil {
					m.err = i.fill(ctx, &msg, s, m.Message)
				}
				if m.err != nil {
					yield(Message{}, fmt.Errorf("read inbox of %s: %w", s, m.err))
					return
				}
				if !yield(msg, nil) {
					return
				}
				if msg.More {
					break
				}
				last = m.Seq
				m = next(l, last)
			}
		}
	}
}

func cursorOf(cursors []events.Cursor, l events.Lane) uint64 {
	for _, c := range cursors {
		if c.Lane == l {
			return c.Seq
		}
	}
	return 0
}

// fill decodes a stored message into msg. It sets Err for an invalid command.
func (i *Inbox) fill(ctx context.Context, msg *Message, s content.SessionID, m api.Message) error {
	limit := maxAsk
	if msg.Lane == events.LaneReport {
		limit = 0 // a tool's output is never skipped
	}
	data, err := i.cell.unpack(ctx, m.Header, m.Data, limit)
	switch {
	case errors.Is(err, ErrTooLarge):
		msg.Err = fmt.Errorf("%w: %w", commands.ErrBadCommand, err)
	case m.Spoofed:
		msg.Err = fmt.Errorf("%w: %w", commands.ErrBadCommand, api.ErrSpoofed)
	case errors.Is(err, ErrBlobMissing):
		msg.Err = err
	case err != nil:
		return err
	default:
		msg.decode(s, data)
	}
	return nil
}

// decode decodes the command and checks its session and lane.
func (m *Message) decode(s content.SessionID, data []byte) {
	m.Envelope, m.Err = commands.Decode(data)
	if m.Err == nil && m.Envelope.Session != s {
		m.Err = fmt.Errorf("%w: %s is for session %q, not for %q", commands.ErrBadCommand, m.Envelope.ID, m.Envelope.Session, s)
	}
	if m.Err == nil && m.Lane != commands.LaneOf(m.Envelope.Command) {
		m.Err = fmt.Errorf("%w: %s came on lane %q", commands.ErrBadCommand, commands.NameOf(m.Envelope.Command), m.Lane)
	}
}

// Purge deletes the handled commands, up to and including each lane's cursor. With keepLast the last
// handled command of each lane stays. It must be set while work is outstanding, so that the inbox
// alone shows which sessions must run (the invariant inbox-empty-only-at-rest).
func (i *Inbox) Purge(ctx context.Context, s content.SessionID, cursors []events.Cursor, keepLast bool) error {
	err := cmp.Or(api.Together(cursors, func(c events.Cursor) error {
		if c.Lane == events.LaneLocal || c.Seq == 0 {
			return nil
		}
		end := c.Seq + 1 // exclusive
		if keepLast {
			end = c.Seq
		}
		stream, subject := i.cell.lane(s, c.Lane)
		return i.cell.api.Purge(ctx, stream, subject, end)
	})...)
	if err != nil {
		return fmt.Errorf("purge inbox of %s: %w", s, err)
	}
	return nil
}

// HasAny reports whether the inbox holds a command of the session, handled or not. It asks the
// leaders.
func (i *Inbox) HasAny(ctx context.Context, s content.SessionID) (bool, error) {
	for _, p := range i.cell.names.Commands(s) {
		_, err := i.cell.api.Next(ctx, p.Stream, p.Subject, 1)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, api.ErrNoMessage) {
			return false, fmt.Errorf("look into inbox of %s: %w", s, err)
		}
	}
	return false, nil
}

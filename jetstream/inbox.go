package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

const (
	// maxAsk is the largest ask. The session's driver keeps it in memory.
	maxAsk = 128 << 20

	// A read returns at most this much of a lane.
	readMessages = 256
	readBytes    = 4 << 20 // it ends after the message that exceeds it

	// maxAhead is how many messages of a lane are requested at once.
	maxAhead = 16
)

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
	More     bool   // from Read: its lane continues, read again
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
	msg := &nats.Msg{Subject: subject}
	if ticket != "" {
		msg.Header = withHeader(nil, layout.HeaderTicket, ticket)
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
	header, data, err := c.pack(ctx, data)
	if err != nil {
		return 0, err
	}
	msg.Data = data
	for k, v := range header {
		msg.Header = withHeader(msg.Header, k, v...)
	}
	err = api.Promptly(ctx, func(ctx context.Context) error {
		seq, err = c.api.Publish(ctx, msg)
		return err
	})
	return seq, err
}

// Read returns the commands after the cursors, which name each lane at most once, lane by lane and
// in order: first asks, then decisions, reports and timers. It asks the leaders, so it includes
// everything that was acknowledged before. Of a long lane it returns the first part.
func (i *Inbox) Read(ctx context.Context, s content.SessionID, cursors []events.Cursor) ([]Message, error) {
	type result struct {
		found []Message
		err   error
	}
	results := api.Together(lanes(), func(l events.Lane) (r result) {
		r.found, r.err = i.readLane(ctx, s, events.Cursor{Lane: l, Seq: cursorOf(cursors, l)})
		return r
	})
	var out []Message
	for _, r := range results {
		if r.err != nil {
			return nil, fmt.Errorf("read inbox of %s: %w", s, r.err)
		}
		out = append(out, r.found...)
	}
	return out, nil
}

// All yields every command after the cursors in bounded reads.
func (i *Inbox) All(ctx context.Context, s content.SessionID, cursors []events.Cursor) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		at := slices.Clone(cursors)
		for more := true; more; {
			more = false
			messages, err := i.Read(ctx, s, at)
			if err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range messages {
				more = more || m.More
				at = slices.DeleteFunc(at, func(c events.Cursor) bool { return c.Lane == m.Lane })
				at = append(at, events.Cursor{Lane: m.Lane, Seq: m.Seq})
				if !yield(m, nil) {
					return
				}
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

func (i *Inbox) readLane(ctx context.Context, s content.SessionID, from events.Cursor) ([]Message, error) {
	var out []Message
	stream, subject := i.cell.lane(s, from.Lane)
	for last, size, ahead := from.Seq, 0, 1; ; {
		found, err := i.cell.api.Run(ctx, stream, subject, last+1, ahead)
		if err != nil || len(found) == 0 {
			return out, err
		}
		for _, m := range found {
			msg := Message{Lane: from.Lane, Seq: m.Seq, Last: last, Ticket: m.Header.Get(layout.HeaderTicket)}
			n, err := i.fill(ctx, &msg, s, m)
			if err != nil {
				return nil, err
			}
			size += n
			msg.More = len(out) == readMessages-1 || size > readBytes
			out = append(out, msg)
			if msg.More {
				return out, nil
			}
			last = m.Seq
		}
		if ahead = min(2*ahead, maxAhead); len(found)*2 < ahead { // other sessions' messages are in between
			ahead = 1
		}
	}
}

// fill decodes a stored message into msg and returns its size. It sets Err for an invalid command.
func (i *Inbox) fill(ctx context.Context, msg *Message, s content.SessionID, m api.Message) (size int, err error) {
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
		return 0, err
	default:
		msg.decode(s, data)
	}
	return len(data), nil
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
	err := api.ForEach(cursors, func(c events.Cursor) error {
		if c.Lane == events.LaneLocal || c.Seq == 0 {
			return nil
		}
		end := c.Seq + 1 // exclusive
		if keepLast {
			end = c.Seq
		}
		stream, subject := i.cell.lane(s, c.Lane)
		return i.cell.api.Purge(ctx, stream, subject, end)
	})
	if err != nil {
		return fmt.Errorf("purge inbox of %s: %w", s, err)
	}
	return nil
}

// HasAny reports whether the inbox holds a command of the session, handled or not. It asks the
// leaders.
func (i *Inbox) HasAny(ctx context.Context, s content.SessionID) (bool, error) {
	places := []struct{ stream, subject string }{
		{i.cell.names.InboxStream(), i.cell.names.Cmds(s)},
		{i.cell.names.TimersStream(), i.cell.names.Due(s)},
	}
	for _, p := range places {
		_, err := i.cell.api.Next(ctx, p.stream, p.subject, 1)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, api.ErrNoMessage) {
			return false, fmt.Errorf("look into inbox of %s: %w", s, err)
		}
	}
	return false, nil
}

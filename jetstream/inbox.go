package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

const apiStreamPurge = "$JS.API.STREAM.PURGE."

// ErrNoLane is returned by Send for a command that a host gives itself or that
// only the server sends. There is no lane for it: apply it where it arose.
var ErrNoLane = errors.New("command has no lane")

// Inbox holds the commands of all sessions until they are handled. A session's
// commands come on lanes, one permission each, and consumption is a cursor per
// lane that the driver keeps in its journal; the inbox itself remembers nothing.
type Inbox struct {
	cell *Cell
}

// Inbox returns the cell's inbox.
func (c *Cell) Inbox() *Inbox { return &Inbox{cell: c} }

// Message is one command of a session, as it was read or heard.
type Message struct {
	Lane     events.Lane
	Seq      uint64 // of the message, which is the lane's cursor once it is handled
	Last     uint64 // of the lane's message before; what lies between that and the cursor was missed
	Envelope commands.Envelope
	Ticket   string // that came with it
	Err      error  // commands.ErrBadCommand or ErrBlobMissing: pass over it
	Gap      bool   // from a Listener only: commands may have been missed, read the inbox
	More     bool   // from Read only: its lane goes on behind this one, read again
}

// lanes of a session, in the order in which their commands are taken.
func lanes() []events.Lane {
	return []events.Lane{events.LaneAsk, events.LaneDecide, events.LaneReport, events.LaneDue}
}

// lane returns the stream and the subject of a session's lane.
func (c *Cell) lane(s content.SessionID, l events.Lane) (stream, subject string) {
	if l == events.LaneDue {
		return c.names.timersStream(), c.names.due(s)
	}
	return c.names.inboxStream(), c.names.cmd(s, l)
}

// Send puts a command into its session's inbox and returns its sequence there.
// It tries again for as long as trying can help, so a command may arrive twice;
// its id tells. It wakes nobody; see Runs.
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
		msg.Header = withHeader(nil, headerTicket, ticket)
	}
	seq, err := i.cell.sendEnvelope(ctx, msg, env)
	if err != nil {
		return 0, fmt.Errorf("send %s to %s: %w", env.ID, env.Session, i.cell.explain(ctx, stream, err))
	}
	return seq, nil
}

// maxAsk is the largest ask: whoever drives the session holds it in memory, several
// times for a moment, and then for as long as the session is driven.
const maxAsk = 128 << 20

// sendEnvelope publishes a command as msg says, more than once if need be.
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
	err = promptly(ctx, func(ctx context.Context) error {
		seq, err = c.publish(ctx, msg)
		return err
	})
	return seq, err
}

// promptly is patiently for what comes with every call: only when the first
// attempt fails is there anything to be patient about.
func promptly(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	if err == nil || !isTransient(err) {
		return err
	}
	return patiently(ctx, do)
}

// Read returns the commands behind the cursors, which name each lane at most
// once, lane by lane and in order: first what clients ask, then decisions,
// reports and timers. It asks the leaders, so it sees whatever was acknowledged
// before. Of a lane that holds very many it brings the first ones.
func (i *Inbox) Read(ctx context.Context, s content.SessionID, cursors []events.Cursor) ([]Message, error) {
	var reads []*laneRead
	for _, lane := range lanes() {
		reads = append(reads, &laneRead{from: events.Cursor{Lane: lane, Seq: cursorOf(cursors, lane)}})
	}
	err := together(reads, func(r *laneRead) (err error) {
		r.found, err = i.readLane(ctx, s, r.from)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read inbox of %s: %w", s, err)
	}
	var out []Message
	for _, r := range reads {
		out = append(out, r.found...)
	}
	return out, nil
}

// All yields every command behind the cursors, as Read does, again and again.
func (i *Inbox) All(ctx context.Context, s content.SessionID, cursors []events.Cursor) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		at := make(map[events.Lane]uint64)
		for _, c := range cursors {
			at[c.Lane] = c.Seq
		}
		for more := true; more; {
			more = false
			var from []events.Cursor
			for _, l := range lanes() {
				from = append(from, events.Cursor{Lane: l, Seq: at[l]})
			}
			messages, err := i.Read(ctx, s, from)
			if err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range messages {
				at[m.Lane], more = m.Seq, more || m.More
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

// decode fills in the command, if the bytes are one for the session.
func (m *Message) decode(s content.SessionID, data []byte) {
	m.Envelope, m.Err = commands.Decode(data)
	if m.Err == nil && m.Envelope.Session != s {
		m.Err = fmt.Errorf("%w: %s is for session %q, not for %q", commands.ErrBadCommand, m.Envelope.ID, m.Envelope.Session, s)
	}
	if m.Err == nil && m.Lane != commands.LaneOf(m.Envelope.Command) {
		m.Err = fmt.Errorf("%w: %s came on lane %q", commands.ErrBadCommand, commands.NameOf(m.Envelope.Command), m.Lane)
	}
}

// Purge removes the handled commands, up to and with each lane's cursor. While
// work is outstanding keepLast must be set: the last handled command of each lane
// then stays, so that the inbox alone says which sessions have to run (the
// invariant inbox-empty-only-at-rest).
func (i *Inbox) Purge(ctx context.Context, s content.SessionID, cursors []events.Cursor, keepLast bool) error {
	err := together(cursors, func(c events.Cursor) error {
		if c.Lane == events.LaneLocal || c.Seq == 0 {
			return nil
		}
		end := c.Seq + 1 // what is before it goes
		if keepLast {
			end = c.Seq
		}
		stream, subject := i.cell.lane(s, c.Lane)
		return i.cell.purge(ctx, stream, subject, end)
	})
	if err != nil {
		return fmt.Errorf("purge inbox of %s: %w", s, err)
	}
	return nil
}

// purge removes the messages on a subject before a sequence, 0 for all.
func (c *Cell) purge(ctx context.Context, stream, subject string, before uint64) error {
	query := fmt.Appendf(nil, `{"filter":%q,"seq":%d}`, subject, before)
	if before == 0 {
		query = fmt.Appendf(nil, `{"filter":%q}`, subject)
	}
	err := patiently(ctx, func(ctx context.Context) error {
		_, err := c.ask(ctx, apiStreamPurge+stream, query)
		return err
	})
	if err != nil {
		return c.explain(ctx, stream, err)
	}
	return nil
}

// HasAny reports whether a command of the session is there, handled or not. It
// asks the leaders.
func (i *Inbox) HasAny(ctx context.Context, s content.SessionID) (bool, error) {
	places := []struct{ stream, subject string }{
		{i.cell.names.inboxStream(), i.cell.names.cmds(s)},
		{i.cell.names.timersStream(), i.cell.names.due(s)},
	}
	for _, p := range places {
		_, err := i.cell.leaderNext(ctx, p.stream, p.subject, 1)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, errNoMessage) {
			return false, fmt.Errorf("look into inbox of %s: %w", s, err)
		}
	}
	return false, nil
}

// laneOf returns the lane of a subject of commands or of its live copy.
func (n names) laneOf(subject string) events.Lane {
	subject = strings.TrimPrefix(strings.TrimPrefix(subject, n.ns+"."), "live.")
	if strings.HasPrefix(subject, "due.") {
		return events.LaneDue
	}
	return events.Lane(subject[strings.LastIndexByte(subject, '.')+1:])
}

package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
	"github.com/turnlog/turnlog/jetstream/internal/signing"
)

// ErrNoLane is returned by Send for a command that only hosts or the server create, so it cannot be sent.
var ErrNoLane = errors.New("command has no lane")

// Inbox holds the commands of all sessions until they are handled. A session's commands arrive on
// lanes, each with its own permission. The driver records a cursor per lane in the journal.
//
// A named user sends asks and decisions on a subject that ends in the user's name, where only that user may
// publish. These commands are in a stream of their own. All named users share its lanes.
type Inbox struct {
	cell *Cell
}

// Inbox returns the cell's inbox.
func (c *Cell) Inbox() *Inbox { return &Inbox{cell: c} }

// Message is one command of a session, as it was read or received. Its sender may be hostile. The command
// is neither fetched nor decoded until [Inbox.Open].
type Message struct {
	Lane     events.Lane
	Seq      uint64       // of the message
	Last     uint64       // of the lane's previous message; any between it and the last taken one were missed
	At       content.Time // when the message was stored
	Envelope commands.Envelope
	User     string // the sender, verified by the server; "": the sender's name is a claim
	Ticket   string // of the dispatch that a report is about
	Baggage  string // set by the sender, not checked

	Signature content.Signature // set by the sender, not checked; zero: none
	Schedule  []byte            // the schedule that sent the command and that the signature covers; nil: not from a schedule
	Err       error             // commands.ErrBadCommand or ErrBlobMissing: skip it
	Gap       bool              // from a Listener: commands may have been missed, read the inbox
	More      bool              // from Read, which stopped early in this lane: read again

	session content.SessionID
	data    []byte
	blob    string    // the name of the payload's blob; "": the payload is data
	sealed  string    // the ID of the key that sealed the payload; "": not sealed
	direct  *nats.Msg // a worker sent it to the driver itself; nil: it was in the inbox
}

// Direct reports whether a worker sent the message to the driver itself. It is not in the inbox then.
func (m Message) Direct() bool { return m.direct != nil }

// Answer tells the worker whether the journal has its direct report. If not, or if the answer is lost, the
// worker puts the report into the inbox.
func (m Message) Answer(recorded bool) {
	_ = m.direct.Respond([]byte(strconv.FormatBool(recorded))) // the connection may be gone
}

// LaneOf returns the lane on which Send sends a command. It includes the name of the connection's user, if
// there is one.
func (i *Inbox) LaneOf(cmd commands.Command) events.Lane { return laneOf(cmd, i.cell.user) }

func laneOf(cmd commands.Command, user string) events.Lane {
	l := commands.LaneOf(cmd)
	if user != "" && (l == events.LaneAsk || l == events.LaneDecide) {
		return l.Named()
	}
	return l
}

// Send puts a command into its session's inbox and returns its sequence there. It retries, so a command may
// arrive twice, with the same ID. It does not wake the session; see Runs.
func (i *Inbox) Send(ctx context.Context, env commands.Envelope) (uint64, error) {
	return i.SendReport(ctx, env, "")
}

// SendFor is Send for a command of a schedule. user is the schedule's user, which the server verified, or
// "". s is the schedule's signature. Only drivers may call it.
func (i *Inbox) SendFor(ctx context.Context, user string, env commands.Envelope, schedule []byte, s content.Signature) (uint64, error) {
	return i.send(ctx, env, user, signing.Schedule(schedule, s))
}

// SendReport is Send with the ticket of the dispatch that a report is about.
func (i *Inbox) SendReport(ctx context.Context, env commands.Envelope, ticket string) (uint64, error) {
	header := i.header(&env, ticket) // it also changes env
	return i.send(ctx, env, i.cell.user, header)
}

// header signs a command and returns its headers.
func (i *Inbox) header(env *commands.Envelope, ticket string) nats.Header {
	h := layout.BaggageHeader(env.Baggage)
	if i.cell.keys.Command(h, env); ticket != "" {
		h.Set(layout.HeaderTicket, ticket)
	}
	return h
}

// deliver sends a report to the session's driver itself, and returns whether the journal has it. If not, use
// SendReport: the driver may still record it, but only one of both has an effect.
func (i *Inbox) deliver(ctx context.Context, env commands.Envelope, ticket string) (recorded bool, err error) {
	msg := &nats.Msg{Subject: i.cell.names.Report(env.Session), Header: i.header(&env, ticket)}
	data, err := env.Encode()
	if err != nil || len(data) > maxInline {
		return false, err
	}
	if err := i.cell.pack(ctx, env.Session, sealing.Command, msg, data); err != nil {
		return false, err
	}
	answer, err := i.cell.api.Request(ctx, msg)
	return err == nil && string(answer.Data) == "true", err
}

func (i *Inbox) send(ctx context.Context, env commands.Envelope, user string, h nats.Header) (uint64, error) {
	lane := laneOf(env.Command, user)
	switch {
	case lane == events.LaneLocal || lane == events.LaneDue:
		return 0, fmt.Errorf("send %s to %s: %w", commands.NameOf(env.Command), env.Session, ErrNoLane)
	case !content.IsToken(string(env.Session)):
		return 0, fmt.Errorf("send %s: %w: session %q", commands.NameOf(env.Command), content.ErrBadID, env.Session)
	}
	to := i.cell.names.Lane(env.Session, lane)
	if lane != lane.Unnamed() {
		to.Subject = i.cell.names.CmdOf(user, env.Session, lane)
	}
	msg := &nats.Msg{Subject: to.Subject, Header: h}
	seq, err := i.cell.sendEnvelope(ctx, msg, env)
	if err != nil {
		return 0, fmt.Errorf("send %s to %s: %w", env.ID, env.Session, i.cell.api.Explain(ctx, to.Stream, err))
	}
	return seq, nil
}

// sendEnvelope publishes a command with the subject and headers of msg, with retries.
func (c *Cell) sendEnvelope(ctx context.Context, msg *nats.Msg, env commands.Envelope) (seq uint64, err error) {
	data, err := env.Encode()
	if err != nil {
		return 0, err
	}
	if len(data) > maxCommand {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), maxCommand)
	}
	if err := c.pack(ctx, env.Session, sealing.Command, msg, data); err != nil {
		return 0, err
	}
	err = api.Patiently(ctx, func(ctx context.Context) error {
		seq, err = c.api.Publish(ctx, msg)
		return err
	})
	return seq, err
}

// Read is Reader.Read for a caller that does not handle commands.
func (i *Inbox) Read(ctx context.Context, s content.SessionID, cursors []events.Cursor, most int) iter.Seq2[Message, error] {
	return i.Reader(s, cursors).Read(ctx, most)
}

// Reader reads a session's inbox for the process that handles its commands, and knows which ones are
// handled. One goroutine uses it.
//
// A stream may lose what it acknowledged: after a power loss, through an old backup, or because it was
// created again. It then gives the same sequences to other commands. So a command counts as handled only if
// its sequence and its time of storage are not after the lane's cursor. Servers' clocks may differ, so if
// only the time says that a command is new, the causes in the journal decide. A command that was handled in
// one version of the stream and is back in the next is not handled again, and no new command is missed,
// whatever its sequence.
type Reader struct {
	inbox   *Inbox
	session content.SessionID
	lanes   map[events.Lane]*lane
	causes  map[string]bool // all causes in the journal; nil until they are needed
	look    *look           // for the next Read; nil: Read looks itself
}

// look is what an inbox was found to hold.
type look struct {
	last  map[string]stored // of each stream
	first []stored          // of each lane, see Reader.first; nil: not read
}

// lane is how far one lane is handled.
type lane struct {
	events.Cursor

	seen stamp // of the last handled message in the current version of the stream; all before it are handled
}

// stamp identifies a message in any version of its stream. The zero stamp is before all messages.
type stamp struct {
	seq uint64
	at  content.Time
}

func stampOf(m api.Message) stamp { return stamp{m.Seq, content.TimeOf(m.Time)} }

// Reader returns a reader that continues from the cursors, which name each lane at most once.
func (i *Inbox) Reader(s content.SessionID, cursors []events.Cursor) *Reader {
	r := &Reader{inbox: i, session: s, lanes: make(map[events.Lane]*lane)}
	for _, l := range layout.Lanes() {
		r.lanes[l] = &lane{Cursor: events.Cursor{Lane: l}}
	}
	r.Adopt(cursors)
	return r
}

// Adopt takes over cursors that another driver recorded.
func (r *Reader) Adopt(cursors []events.Cursor) {
	for _, c := range cursors {
		if p := r.lanes[c.Lane]; p != nil && (c.Seq > p.Seq || c.At > p.At) {
			p.Cursor = c
		}
	}
	if r.look != nil {
		r.look.first = nil
	}
}

// Cursors yields the cursors of all lanes, in the order in which they are handled.
func (r *Reader) Cursors() iter.Seq[events.Cursor] {
	return func(yield func(events.Cursor) bool) {
		for _, l := range layout.Lanes() {
			if !yield(r.lanes[l].Cursor) {
				return
			}
		}
	}
}

// Take records that a message was handled, and with it all earlier ones of its lane.
func (r *Reader) Take(m Message) {
	p := r.lanes[m.Lane]
	p.Seq, p.At, p.seen = m.Seq, max(p.At, m.At), stamp{m.Seq, m.At}
	if r.look = nil; r.causes != nil && m.Err == nil {
		r.causes[m.Envelope.ID] = true
	}
}

// Follows reports whether a live command is the next one of its lane. If not, the command is old, or an
// earlier one may have been missed: read the inbox. That is always so for a command of a named user, whose
// copy names its predecessor on that user's subject, not on the lane.
func (r *Reader) Follows(m Message) bool {
	p := r.lanes[m.Lane]
	return !m.Gap && p != nil && m.User == "" && m.Last == p.seen.seq && p.judge(stamp{m.Seq, m.At}) == isNew
}

// Old reports whether a live command was handled.
func (r *Reader) Old(m Message) bool {
	p := r.lanes[m.Lane]
	return !m.Gap && p != nil && p.judge(stamp{m.Seq, m.At}) == isOld
}

// verdict says whether a message is handled.
type verdict int

const (
	isNew verdict = iota
	isOld
	inDoubt // only the causes in the journal can tell
)

// judge compares a message with the lane's cursor.
func (p *lane) judge(m stamp) verdict {
	before := m.seq <= p.Seq
	switch {
	case p.At == 0 && !before: // earlier releases recorded no time
		return isNew
	case p.At == 0:
		return inDoubt
	case m.at > p.At, m.at == p.At && !before:
		return isNew
	case before:
		return isOld
	}
	return inDoubt // another server's clock, or an old backup of a stream that was created again
}

// Look is Inbox.HasAny, and saves the next Read from looking again: that Read includes what was
// acknowledged before this call, and a Listener that is older receives the rest. Adopt keeps what was
// found; see also LookAgain.
func (r *Reader) Look(ctx context.Context) (found bool, err error) {
	now := &look{last: r.inbox.lastMessages(ctx, r.session)}
	for _, m := range now.last {
		if m.err != nil && !errors.Is(m.err, api.ErrNoMessage) {
			return false, fmt.Errorf("check inbox of %s: %w", r.session, m.err)
		}
		found = found || m.err == nil
	}
	r.look = now
	return found, nil
}

// LookAgain makes the next Read look again, so that it includes what was acknowledged before that Read.
func (r *Reader) LookAgain() { r.look = nil }

// Read yields the unopened commands that are not handled, lane by lane and in order: first asks, then
// decisions, reports and timers. It asks the leaders, so it includes everything that was acknowledged
// before the call, or before Look. It stops each lane after most commands, except that of reports; 0 means
// no limit. If the caller stops before it has taken any, the next Read begins with what this one found.
func (r *Reader) Read(ctx context.Context, most int) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		now := r.look
		if now == nil {
			now = &look{last: r.inbox.lastMessages(ctx, r.session)}
		}
		if now.first == nil {
			now.first = api.Together(layout.Lanes(), func(l events.Lane) stored { return r.first(ctx, r.lanes[l], now) })
		}
		r.look = now
		for n, l := range layout.Lanes() {
			limit := most
			if l == events.LaneReport {
				limit = 0
			}
			more, err := r.readLane(ctx, r.lanes[l], now.first[n], now.end(r, l).Seq, limit, yield)
			if err != nil {
				r.look = nil
				yield(Message{}, fmt.Errorf("read inbox of %s: %w", r.session, err))
			}
			if err != nil || !more {
				return
			}
		}
		r.look = nil
	}
}

// end returns the last message in the stream of a lane. When look read it, nothing was after it.
func (l *look) end(r *Reader, of events.Lane) stored {
	return l.last[r.inbox.cell.names.Lane(r.session, of).Stream]
}

// stored is a message of a stream, or the error that says why there is none.
type stored struct {
	api.Message
	err error
}

// next returns the first message of a lane at or after a sequence.
func (r *Reader) next(ctx context.Context, l events.Lane, seq uint64) (m stored) {
	return r.inbox.next(ctx, r.inbox.cell.names.Lane(r.session, l), seq)
}

// next does not search past the end of the stream: with a wildcard, the server would examine the messages
// of all sessions.
func (i *Inbox) next(ctx context.Context, from layout.Stored, seq uint64) (m stored) {
	if strings.HasSuffix(from.Subject, "*") {
		if m = i.last(ctx, from); m.err == nil && m.Seq < seq {
			m.err = api.ErrNoMessage
		}
		if m.err != nil || m.Seq == seq {
			return m
		}
	}
	m.Message, m.err = i.cell.api.Next(ctx, from.Stream, from.Subject, seq)
	return m
}

// last returns the last message. It costs the same with a wildcard as without one.
func (i *Inbox) last(ctx context.Context, from layout.Stored) (m stored) {
	m.Message, m.err = i.cell.api.Last(ctx, from.Stream, from.Subject)
	return m
}

// lastMessages returns the last message of a session in each stream, by stream.
func (i *Inbox) lastMessages(ctx context.Context, s content.SessionID) map[string]stored {
	all, out := i.cell.names.Commands(s), make(map[string]stored)
	for n, m := range api.Together(all, func(p layout.Stored) stored { return i.last(ctx, p) }) {
		m.Data = nil // not needed, and may be large
		out[all[n].Stream] = m
	}
	return out
}

// first returns the first message of a lane after those that are known to be handled. Handled messages stay
// in the stream until they are purged. Finding the last handled one proves that it is the same stream. If
// the stream has nothing for the session after that one, first makes no request.
func (r *Reader) first(ctx context.Context, p *lane, now *look) stored {
	m := now.end(r, p.Lane)
	switch {
	case m.err != nil:
		p.seen = stamp{}
		return m
	case stampOf(m.Message) == p.seen, stampOf(m.Message) == stamp{p.Seq, p.At}:
		p.seen = stampOf(m.Message)
		return stored{err: api.ErrNoMessage}
	case p.seen.seq > 0:
		m := r.next(ctx, p.Lane, p.seen.seq)
		if m.err == nil && stampOf(m.Message) == p.seen {
			return r.next(ctx, p.Lane, p.seen.seq+1)
		}
		if p.seen = (stamp{}); m.err != nil && !errors.Is(m.err, api.ErrNoMessage) {
			return m
		}
	}
	if m = r.next(ctx, p.Lane, 1); m.err != nil || m.Seq > p.Seq {
		return m
	}
	at := m
	if m.Seq < p.Seq {
		at = r.next(ctx, p.Lane, p.Seq)
	}
	switch {
	case at.err != nil && !errors.Is(at.err, api.ErrNoMessage):
		return at
	case at.Seq == p.Seq && (p.At == 0 || p.At == content.TimeOf(at.Time)):
		p.seen = stampOf(at.Message)
		return r.next(ctx, p.Lane, p.Seq+1)
	}
	return m
}

// readLane yields the unhandled messages of a lane from m on, up to a limit. It yields none after the first
// one at or past the end of the stream. It returns false if the reader wants no more.
func (r *Reader) readLane(ctx context.Context, p *lane, m stored, end uint64, limit int, yield func(Message, error) bool) (more bool, err error) {
	last, all := p.seen.seq, true // all: every message before m is handled
	for count := 0; !errors.Is(m.err, api.ErrNoMessage); {
		if m.err != nil {
			return false, m.err
		}
		old, msg, err := r.unread(ctx, p, m.Message)
		if err != nil {
			return false, err
		}
		if old && all {
			p.seen = stampOf(m.Message)
		}
		if !old {
			count++
			msg.Last, msg.More = last, count == limit
			if !yield(msg, nil) {
				return false, nil
			}
			if all = all && p.seen.seq == m.Seq; msg.More {
				break
			}
		}
		if last = m.Seq; last >= end {
			break
		}
		m = r.next(ctx, p.Lane, last+1)
	}
	return true, nil
}

// unread returns a stored message, or reports that it is old.
func (r *Reader) unread(ctx context.Context, p *lane, m api.Message) (old bool, msg Message, err error) {
	v := p.judge(stampOf(m))
	if v == isOld {
		return true, msg, nil
	}
	msg = unopened(r.session, r.inbox.cell.names, m.Subject, m.Header, m.Data, m.Spoofed)
	msg.Seq, msg.At = m.Seq, content.TimeOf(m.Time)
	if v == isNew {
		return false, msg, nil
	}
	if err := r.inbox.Open(ctx, &msg); err != nil || msg.Err != nil {
		return false, msg, err
	}
	old, err = r.caused(ctx, msg.Envelope.ID)
	return old, msg, err
}

// caused reports whether the journal has a command as a cause.
func (r *Reader) caused(ctx context.Context, id string) (bool, error) {
	if r.causes == nil {
		all := make(map[string]bool)
		for rec, err := range r.inbox.cell.Journal().Read(ctx, r.session, 0) {
			if err != nil {
				return false, err
			}
			all[rec.Entry.Cause] = true
		}
		r.causes = all
	}
	return r.causes[id], nil
}

// unopened returns a message with what its subject and headers say.
func unopened(s content.SessionID, n layout.Names, subject string, h nats.Header, data []byte, spoofed bool) Message {
	lane, user := n.SenderOf(subject)
	m := Message{Lane: lane, User: user, Ticket: h.Get(layout.HeaderTicket), Baggage: h.Get(layout.HeaderBaggage), Signature: layout.SignatureOf(h), Schedule: layout.ScheduleOf(h), session: s, data: data, blob: h.Get(layout.HeaderBlob), sealed: h.Get(layout.HeaderSealed)}
	switch {
	case spoofed:
		m.Err = fmt.Errorf("%w: %w", commands.ErrBadCommand, api.ErrSpoofed)
	case user != "" && !content.IsToken(user):
		m.Err = fmt.Errorf("%w: user %q", commands.ErrBadCommand, user)
	}
	return m
}

// Open fetches and decodes the command, or sets Err if it is invalid. It checks the declared size of a
// large command before fetching it, and its session and lane before decoding it. It waits until enough
// memory is free, so that hostile commands can take only a limited part of the process's memory.
func (i *Inbox) Open(ctx context.Context, m *Message) error {
	if m.Err != nil || m.Envelope.Command != nil {
		return nil //nolint:nilerr // the message keeps it
	}
	size, large, err := int64(len(m.data)), (*blob.Blob)(nil), error(nil)
	if m.blob != "" {
		if large, err = i.cell.blobs.Open(ctx, m.blob); err == nil {
			size = large.Size()
		}
	}
	if err == nil && size > maxCommand {
		err = fmt.Errorf("%w: %w: %d bytes, at most %d", commands.ErrBadCommand, ErrTooLarge, size, maxCommand)
	}
	if err == nil {
		err = i.decode(ctx, m, int(size), large)
	}
	m.data = nil
	if errors.Is(err, commands.ErrBadCommand) || errors.Is(err, ErrBlobMissing) {
		m.Err, err = err, nil
	}
	return err
}

func (i *Inbox) decode(ctx context.Context, m *Message, size int, large *blob.Blob) (err error) {
	memory := min(wire.Memory(size, wire.Command), decodingMemory)
	if err := i.cell.decoding.Acquire(ctx, memory); err != nil {
		return context.Cause(ctx)
	}
	defer i.cell.decoding.Release(memory)
	if large != nil {
		if m.data, err = large.Read(ctx); err != nil {
			return err
		}
	}
	if err := i.cell.openCommand(ctx, m); err != nil {
		return err
	}
	m.Envelope, err = commands.DecodeOn(m.session, m.Lane.Unnamed(), m.data)
	return err
}

// Purge deletes the handled commands that were read or received. With keepLast, the last one of each lane
// stays. keepLast must be set while work is outstanding, so that the inbox alone shows which sessions must
// run (the invariant inbox-empty-only-at-rest). If the last handled command of a lane is gone, nothing is
// deleted from that lane: its sequences may have started again.
func (r *Reader) Purge(ctx context.Context, keepLast bool) error {
	err := cmp.Or(api.Together(layout.Lanes(), func(l events.Lane) error {
		p := r.lanes[l]
		if p.seen.seq == 0 {
			return nil
		}
		m := r.next(ctx, l, p.seen.seq)
		if errors.Is(m.err, api.ErrNoMessage) || m.err == nil && stampOf(m.Message) != p.seen {
			return nil
		}
		if m.err != nil {
			return m.err
		}
		end := p.seen.seq + 1 // exclusive
		if keepLast {
			end = p.seen.seq
		}
		at := r.inbox.cell.names.Lane(r.session, l)
		return r.inbox.cell.api.Purge(ctx, at.Stream, at.Subject, end)
	})...)
	if err != nil {
		return fmt.Errorf("purge inbox of %s: %w", r.session, err)
	}
	return nil
}

// HasAny reports whether the inbox holds a command of the session, handled or not. It asks the
// leaders.
func (i *Inbox) HasAny(ctx context.Context, s content.SessionID) (bool, error) {
	for _, p := range i.cell.names.Commands(s) {
		err := i.last(ctx, p).err
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, api.ErrNoMessage) {
			return false, fmt.Errorf("check inbox of %s: %w", s, err)
		}
	}
	return false, nil
}

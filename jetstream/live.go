package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
)

// AllSessions means every session.
const AllSessions = layout.AllSessions

const (
	// eventBuffer is how many live events may wait for their reader. A reply streams hundreds per
	// second, and a reader that pauses for a second should miss none.
	eventBuffer = 1024

	// How many live commands and direct reports of a session may wait for its driver. If more commands
	// arrive, the driver reads the inbox.
	listenBuffer, directBuffer = 128, 64
)

// Live carries events that are not stored: parts of a streamed reply, progress of tools, rejections. An
// event arrives at most once and may be lost.
type Live struct{ cell *Cell }

// Live returns the cell's live events.
func (c *Cell) Live() *Live { return &Live{cell: c} }

// Publish sends an event to all current subscribers.
//
//nolint:contextcheck,nolintlint // its request ends by itself; the linter reports callers, so nolintlint calls this unused
func (l *Live) Publish(s content.SessionID, ev events.Event) error {
	msg := nats.NewMsg(l.cell.names.Delta(s))
	data, err := events.EncodeLive(ev)
	if err == nil {
		msg.Data, err = l.cell.seals.Close(context.Background(), s, sealing.Live, msg.Header, data)
	}
	if err == nil {
		err = l.cell.nc.PublishMsg(msg)
	}
	if err != nil {
		return fmt.Errorf("live event of %s: %w", s, err)
	}
	return nil
}

// Subscribe receives the live events of a session, or of AllSessions, from now until ctx ends. The sequence
// has one reader. It drops events if the reader is too slow, and events that this release does not know or
// cannot open.
func (l *Live) Subscribe(ctx context.Context, s content.SessionID) (iter.Seq2[content.SessionID, events.Event], error) {
	raw, err := l.cell.subscribe(ctx, "", l.cell.names.Delta(s))
	if err != nil {
		return nil, fmt.Errorf("live events of %s: %w", s, err)
	}
	return func(yield func(content.SessionID, events.Event) bool) {
		for msg := range raw {
			session := l.cell.names.SessionOf(msg.Subject)
			var ev events.Event
			data, err := l.cell.seals.Open(ctx, session, sealing.Live, msg.Header, msg.Data)
			if err == nil {
				ev, err = events.DecodeLive(data)
			}
			if err == nil && session != "" && !yield(session, ev) {
				return
			}
		}
	}, nil
}

// subscribe receives messages from now until ctx ends. In a queue group, each message reaches one receiver.
func (c *Cell) subscribe(ctx context.Context, group string, subjects ...string) (iter.Seq[*nats.Msg], error) {
	raw := make(chan *nats.Msg, eventBuffer)
	for _, subject := range subjects {
		sub, err := c.nc.ChanQueueSubscribe(subject, group, raw)
		if err != nil {
			return nil, err //nolint:wrapcheck // callers wrap it
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	}
	return func(yield func(*nats.Msg) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case msg := <-raw:
				if !yield(msg) {
					return
				}
			}
		}
	}, nil
}

// Listener receives the commands of one session as they are stored. It may miss some: a live copy is sent
// once, and a server that loses its leadership sends none. Read the inbox after a reconnect, and after a
// Message that has Gap set, or a Last after the lane's cursor. One goroutine uses a Listener.
//
// A read of the inbox after Listen, on the same connection, finds all commands that were stored before
// the Listener existed.
type Listener struct {
	cell    *Cell
	session content.SessionID

	subs   []*nats.Subscription // to commands
	raw    chan *nats.Msg       // the client drops and counts messages that do not fit
	status chan nats.Status
	missed int // dropped commands already reported by Message

	reports *nats.Subscription
	direct  chan *nats.Msg // if a report does not fit, its worker puts it into the inbox
}

// Listen starts a Listener. It runs until Close, even if ctx ends.
func (i *Inbox) Listen(ctx context.Context, s content.SessionID) (*Listener, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l := &Listener{
		cell: i.cell, session: s, status: i.cell.nc.StatusChanged(nats.CONNECTED),
		raw: make(chan *nats.Msg, listenBuffer), direct: make(chan *nats.Msg, directBuffer),
	}
	var err error
	l.reports, err = i.cell.nc.ChanSubscribe(i.cell.names.Report(s), l.direct)
	for _, commands := range i.cell.names.Commands(s) {
		sub, failed := i.cell.nc.ChanSubscribe(i.cell.names.Live(commands.Subject), l.raw)
		l.subs, err = append(l.subs, sub), errors.Join(err, failed)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("listen to %s: %w", s, err)
	}
	return l, nil
}

// C delivers live copies, which Message decodes. It is never closed.
func (l *Listener) C() <-chan *nats.Msg { return l.raw }

// Direct delivers the reports that workers send to the driver itself, which Report decodes. It is never closed.
func (l *Listener) Direct() <-chan *nats.Msg { return l.direct }

// Reconnected delivers a value after each reconnect.
func (l *Listener) Reconnected() <-chan nats.Status { return l.status }

// Close stops listening. Call it once.
func (l *Listener) Close() {
	for _, sub := range append(l.subs, l.reports) {
		_ = sub.Unsubscribe() // the connection may be gone
	}
	l.cell.nc.RemoveStatusListener(l.status)
}

// dropped returns the number of dropped commands.
func (l *Listener) dropped() int {
	total := 0
	for _, sub := range l.subs {
		n, err := sub.Dropped()
		if err == nil { // otherwise the connection is closed, and nothing more arrives
			total += n
		}
	}
	return total
}

// Message returns a live copy, unopened. It returns a gap for the first copy after dropped ones, and for a
// copy whose payload is a blob.
func (l *Listener) Message(raw *nats.Msg) Message {
	if n := l.dropped(); n > l.missed {
		l.missed = n
		return Message{Gap: true}
	}
	m := unopened(l.session, l.cell.names, raw.Subject, raw.Header, raw.Data, api.IsSpoofedCopy(raw.Header))
	m.Seq, m.Last = api.HeaderUint(raw.Header, jetstream.SequenceHeader), api.HeaderUint(raw.Header, jetstream.LastSequenceHeader)
	m.At = content.TimeOf(api.HeaderTime(raw.Header))
	if m.Err == nil && (m.Seq == 0 || m.At == 0 || m.blob != "") {
		return Message{Gap: true}
	}
	return m
}

// Report returns a direct report, unopened. Its worker waits for Answer.
func (l *Listener) Report(raw *nats.Msg) Message {
	m := unopened(l.session, l.cell.names, raw.Subject, raw.Header, raw.Data, api.IsSpoofed(raw.Header))
	m.At, m.direct = content.TimeOf(time.Now()), raw
	return m
}

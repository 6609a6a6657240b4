package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
)

// listenBuffer is how many commands of a session may wait for its driver; one
// more is a gap, and the driver reads the inbox.
const listenBuffer = 128

// Listener hears the commands of one session as they are stored. It may miss
// some: a live copy is sent once, and a server that loses its leadership sends
// none. What it hears says so: a Message with Gap set, or one whose Last lies
// behind the lane's cursor, means that the inbox has to be read.
//
// A read of the inbox that is made after Listen on the same connection finds
// everything that the Listener was too late to hear.
type Listener struct {
	cell    *Cell
	session content.SessionID

	subs   []*nats.Subscription
	raw    chan *nats.Msg   // bounded; the client drops what does not fit and counts it
	status chan nats.Status // the connection was made anew
	out    chan Message
	quit   chan struct{}
	done   chan struct{}
}

// Listen begins to listen to a session. Close ends it; ctx does not.
func (i *Inbox) Listen(ctx context.Context, s content.SessionID) (*Listener, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l := &Listener{
		cell:    i.cell,
		session: s,
		raw:     make(chan *nats.Msg, listenBuffer),
		out:     make(chan Message),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	n := i.cell.names
	for _, subject := range []string{n.live(n.cmds(s)), n.live(n.due(s))} {
		sub, err := i.cell.nc.ChanSubscribe(subject, l.raw)
		if err != nil {
			l.unsubscribe()
			return nil, fmt.Errorf("listen to %s: %w", s, err)
		}
		l.subs = append(l.subs, sub)
	}
	l.status = i.cell.nc.StatusChanged(nats.CONNECTED)
	go l.run() // Close waits for it
	return l, nil
}

// C delivers what is heard. It is never closed.
func (l *Listener) C() <-chan Message { return l.out }

// Next waits for the next message. It returns context.Cause(ctx) when ctx ends.
func (l *Listener) Next(ctx context.Context) (Message, error) {
	select {
	case m := <-l.out:
		return m, nil
	case <-ctx.Done():
		return Message{}, context.Cause(ctx)
	}
}

// Close ends the listening and waits until it has ended. It is called once.
func (l *Listener) Close() {
	close(l.quit)
	<-l.done
	l.unsubscribe()
	l.cell.nc.RemoveStatusListener(l.status)
}

func (l *Listener) unsubscribe() {
	for _, sub := range l.subs {
		_ = sub.Unsubscribe() // the connection may be gone
	}
}

// run passes on what arrives until Close. It never waits for anything but its
// reader, and while it does, the client counts what does not fit.
func (l *Listener) run() {
	defer close(l.done)
	missed := 0
	for {
		var m Message
		select {
		case raw := <-l.raw:
			m = l.read(raw)
		case <-l.status:
			m = Message{Gap: true}
		case <-l.quit:
			return
		}
		if n := l.dropped(); n > missed {
			missed = n
			if !l.pass(Message{Gap: true}) {
				return
			}
		}
		if !l.pass(m) {
			return
		}
	}
}

func (l *Listener) pass(m Message) bool {
	select {
	case l.out <- m:
		return true
	case <-l.quit:
		return false
	}
}

// dropped counts the messages that did not fit.
func (l *Listener) dropped() int {
	total := 0
	for _, sub := range l.subs {
		n, err := sub.Dropped()
		if err == nil { // else the connection is closed, and nothing comes any more
			total += n
		}
	}
	return total
}

// read decodes a live copy. One whose payload is elsewhere is left to a read of
// the inbox, which may wait for it.
func (l *Listener) read(raw *nats.Msg) Message {
	m := Message{
		Lane: l.cell.names.laneOf(raw.Subject),
		Seq:  headerUint(raw.Header, jetstream.SequenceHeader),
		Last: headerUint(raw.Header, jetstream.LastSequenceHeader),

		Ticket: raw.Header.Get(headerTicket),
	}
	if isAimedCopy(raw.Header) {
		m.Err = fmt.Errorf("%w: %w", commands.ErrBadCommand, errAimed)
		return m
	}
	if m.Seq == 0 || raw.Header.Get(headerBlob) != "" {
		return Message{Gap: true}
	}
	m.decode(l.session, raw.Data)
	return m
}

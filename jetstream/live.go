package jetstream

import (
	"context"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// AllSessions stands for every session where one is asked for.
const AllSessions content.SessionID = "*"

// eventBuffer is how many live events may wait for their reader. A reply streams
// hundreds a second, and a reader that stalls for a second should miss none.
const eventBuffer = 1024

// Live carries what is not worth keeping: pieces of a reply in flight, progress
// of tools, refusals. An event arrives at most once and may be lost.
type Live struct {
	cell *Cell
}

// Live returns the cell's live events.
func (c *Cell) Live() *Live { return &Live{cell: c} }

// Publish sends an event to whoever listens now.
func (l *Live) Publish(s content.SessionID, ev events.Event) error {
	data, err := events.EncodeLive(ev)
	if err == nil {
		err = l.cell.nc.Publish(l.cell.names.delta(s), data)
	}
	if err != nil {
		return fmt.Errorf("live event of %s: %w", s, err)
	}
	return nil
}

// Subscribe listens to a session's live events, or to those of AllSessions, from
// now until ctx ends. The sequence is for one reader; what it is too slow for is
// lost, and so is what this release does not know.
func (l *Live) Subscribe(ctx context.Context, s content.SessionID) (iter.Seq2[content.SessionID, events.Event], error) {
	raw := make(chan *nats.Msg, eventBuffer)
	sub, err := l.cell.nc.ChanSubscribe(l.cell.names.delta(s), raw)
	if err != nil {
		return nil, fmt.Errorf("live events of %s: %w", s, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return func(yield func(content.SessionID, events.Event) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case msg := <-raw:
				ev, err := events.DecodeLive(msg.Data)
				if err == nil && !yield(l.cell.names.sessionOf(msg.Subject), ev) {
					return
				}
			}
		}
	}, nil
}

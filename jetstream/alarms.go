package jetstream

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
)

// Alarm says that the server stored something which is due: a timer of a session, or
// a firing of a schedule. One of the two is set.
type Alarm struct {
	Session  content.SessionID
	Schedule string
}

// listenersOfAlarms is the group of which one member hears each alarm.
const listenersOfAlarms = "nodes"

// Alarms listens to what becomes due, from now until ctx ends. Of all who listen in a
// cell one hears each alarm, and some are lost: whoever sweeps finds what they were
// about. The sequence is for one reader.
func (c *Cell) Alarms(ctx context.Context) (iter.Seq[Alarm], error) {
	raw := make(chan *nats.Msg, eventBuffer)
	due, fired := c.names.live(c.names.allDue()), c.names.live(c.names.fired("*"))
	for _, subject := range []string{due, fired} {
		sub, err := c.nc.ChanQueueSubscribe(subject, listenersOfAlarms, raw)
		if err != nil {
			return nil, fmt.Errorf("listen to alarms: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	}
	return func(yield func(Alarm) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case msg := <-raw:
				a := Alarm{Session: c.names.sessionOf(msg.Subject)}
				if name, is := strings.CutPrefix(msg.Subject, strings.TrimSuffix(fired, "*")); is {
					a = Alarm{Schedule: name}
				}
				if !yield(a) {
					return
				}
			}
		}
	}, nil
}

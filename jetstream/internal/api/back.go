package api

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// To find the next message on a subject, the server examines the messages of other subjects in between, in
// about 50 ns each, and holds a lock that writers need. A message with a known sequence takes 15 us.
const (
	farApart = 1024 // messages of other subjects between two messages, on average
	maxBack  = 1024 // messages
)

// back returns the messages on a subject from a sequence on, newest first. It starts from the last one, and
// follows the guards, which are the sequences of the messages before. It returns none if a search is better:
// the messages are close together, they have no guards, one of them is gone, or there are too many to keep.
// Any replica may answer.
func (c *Conn) back(ctx context.Context, stream, subject string, seq uint64) (found []Message) {
	m, err := c.copyOf(ctx, stream, fmt.Appendf(nil, `{"last_by_subj":%s}`, quoted(subject)))
	last, size := m.Seq, 0
	for err == nil && len(m.Header[layout.HeaderGuard]) > 0 {
		if m.Seq < seq { // the first one
			return found
		}
		found, size = append(found, m), size+len(m.Data)
		before := HeaderUint(m.Header, layout.HeaderGuard)
		switch n := uint64(len(found)); {
		case before < seq:
			return found
		case last-before < n*farApart, n == maxBack, size > batchBytes:
			return nil
		}
		m, err = c.copyOf(ctx, stream, fmt.Appendf(nil, `{"seq":%d}`, before))
	}
	return nil
}

// copyOf returns a message of a stream. It fails if there is none.
func (c *Conn) copyOf(ctx context.Context, stream string, query []byte) (Message, error) {
	msg, err := c.request(ctx, AskTimeout, &nats.Msg{Subject: DirectGet + stream, Data: query})
	if err != nil {
		return Message{}, err
	}
	m, _, err := parseCopy(msg)
	return m, err
}

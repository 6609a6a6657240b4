package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	batchTimeout  = 5 * time.Second
	batchMessages = 1024
	batchBytes    = 4 << 20 // a batch has no flow control, so it must fit the client's buffers
)

// errTorn is returned when messages of a batch did not arrive.
var errTorn = errors.New("batch of messages is torn")

// Batches yields the messages on a subject, which may contain wildcards, from a sequence on, in order.
// Any replica may serve it, so recent messages may be missing at the end, but never in between.
func (c *Conn) Batches(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		b := batchReader{conn: c, stream: stream, subject: subject, next: max(seq, 1), more: true}
		defer b.close()
		for b.more {
			got, err := b.batch(ctx)
			if err != nil {
				yield(Message{}, c.Explain(ctx, stream, err))
				return
			}
			for _, m := range got {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// batchReader requests batches, always one ahead of its user. The iteration owns it.
type batchReader struct {
	conn    *Conn
	stream  string
	subject string

	sub       *nats.Subscription // nil before the first batch and after a failed one
	arrived   chan *nats.Msg     // has room for a batch and its end
	requested bool               // a batch is in flight
	request   sent               // for it
	next      uint64             // the sequence to continue from
	more      bool               // the last batch was not the end
}

func (b *batchReader) close() {
	if b.sub != nil {
		_ = b.sub.Unsubscribe() // the connection may be gone
		b.sub, b.requested = nil, false
	}
}

// batch returns the next batch and requests the one after it.
func (b *batchReader) batch(ctx context.Context) ([]Message, error) {
	var got []Message
	err := Patiently(ctx, func(ctx context.Context) error {
		err := b.ask()
		if err == nil {
			got, err = b.receive(ctx, got)
		}
		if err == nil && b.more {
			err = b.ask()
		}
		if err != nil {
			b.close() // late messages must not become part of the next batch
			return fmt.Errorf("batch of %s: %w", b.subject, err)
		}
		return nil
	})
	return got, err
}

// ask requests a batch unless one is in flight.
func (b *batchReader) ask() (err error) {
	if b.requested {
		return nil
	}
	nc := b.conn.nc
	if b.sub == nil {
		b.arrived = make(chan *nats.Msg, batchMessages+1)
		if b.sub, err = nc.ChanSubscribe(nc.NewInbox(), b.arrived); err != nil {
			return err //nolint:wrapcheck // batch names itself
		}
	}
	query := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`,
		b.next, b.subject, batchMessages, batchBytes)
	b.requested, b.request = true, b.conn.sending(DirectGet+b.stream)
	return nc.PublishRequest(DirectGet+b.stream, b.sub.Subject, query) //nolint:wrapcheck // as above
}

// receive appends the messages of a batch to got. After an error the messages in got are valid and not
// requested again.
func (b *batchReader) receive(ctx context.Context, got []Message) ([]Message, error) {
	ctx, done := b.conn.await(ctx, batchTimeout, b.request)
	defer done()
	var last uint64 // of the messages of this batch
	for {
		var msg *nats.Msg
		select {
		case msg = <-b.arrived:
		case <-ctx.Done():
			return got, context.Cause(ctx)
		}
		if status := msg.Header.Get("Status"); status != "" && len(msg.Data) == 0 {
			b.requested = false
			return got, b.end(msg, status, last)
		}
		m, before, err := parseCopy(msg)
		if err != nil {
			return got, err
		}
		if before != last {
			return got, fmt.Errorf("%w: message %d follows %d, which is missing", errTorn, m.Seq, before)
		}
		last, b.next = m.Seq, m.Seq+1
		got = append(got, m)
	}
}

// end reads the message that ends a batch.
func (b *batchReader) end(msg *nats.Msg, status string, last uint64) error {
	switch status {
	case "404": // nothing from there on
		b.more = false
		return nil
	case "204":
		if HeaderUint(msg.Header, jetstream.LastSequenceHeader) != last {
			return fmt.Errorf("%w: its end is missing", errTorn)
		}
		b.more = HeaderUint(msg.Header, "Nats-Num-Pending") > 0
		return nil
	case "503":
		return nats.ErrNoResponders
	}
	return fmt.Errorf("status %s %s", status, msg.Header.Get("Description"))
}

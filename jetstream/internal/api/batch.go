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
	firstBatch    = 64 // a caller that wants a few messages gets no more than that
	batchMessages = 1024
	batchGrows    = 4
	batchBytes    = 4 << 20 // a batch has no flow control, so it must fit the client's buffers
)

// errTorn is returned when messages of a batch did not arrive.
var errTorn = errors.New("batch of messages is torn")

// Batches yields the messages on a subject, which may contain wildcards, from a sequence on, in order.
// Any replica may serve it, so recent messages may be missing at the end, but never in between.
func (c *Conn) Batches(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		size := firstBatch
		for next, more := max(seq, 1), true; more; size = min(batchGrows*size, batchMessages) {
			var got []Message
			err := Patiently(ctx, func(ctx context.Context) error {
				some, end, err := c.batch(ctx, stream, subject, next, size)
				if len(some) > 0 {
					got, next = append(got, some...), some[len(some)-1].Seq+1
				}
				more = !end
				return err
			})
			if err != nil {
				yield(Message{}, c.Explain(ctx, stream, fmt.Errorf("batch of %s: %w", subject, err)))
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

// batch requests one batch and reports whether it is the last one. If it returns messages together with an
// error, the messages are valid.
func (c *Conn) batch(ctx context.Context, stream, subject string, from uint64, size int) (got []Message, end bool, err error) {
	arrived := make(chan *nats.Msg, size+1) // has room for a batch and its end
	sub, err := c.nc.ChanSubscribe(c.nc.NewInbox(), arrived)
	if err != nil {
		return nil, false, err //nolint:wrapcheck // Batches names the subject
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	ctx, done := c.await(ctx, batchTimeout, DirectGet+stream)
	defer done()
	query := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%s,"batch":%d,"max_bytes":%d}`, from, quoted(subject), size, batchBytes)
	if err := c.nc.PublishRequest(DirectGet+stream, sub.Subject, query); err != nil {
		return nil, false, err //nolint:wrapcheck // as above
	}
	for last := uint64(0); ; {
		var msg *nats.Msg
		select {
		case msg = <-arrived:
		case <-ctx.Done():
			return got, false, context.Cause(ctx)
		}
		if status := msg.Header.Get("Status"); status != "" && len(msg.Data) == 0 {
			end, err := endOfBatch(msg, status, last)
			return got, end, err
		}
		m, before, err := parseCopy(msg)
		if err != nil {
			return got, false, err
		}
		if before != last {
			return got, false, fmt.Errorf("%w: message %d follows %d, which is missing", errTorn, m.Seq, before)
		}
		got, last = append(got, m), m.Seq
	}
}

// endOfBatch reads the message that ends a batch and reports whether nothing follows.
func endOfBatch(msg *nats.Msg, status string, last uint64) (bool, error) {
	switch status {
	case "404": // no messages from there on
		return true, nil
	case "204":
		if HeaderUint(msg.Header, jetstream.LastSequenceHeader) != last {
			return false, fmt.Errorf("%w: its end is missing", errTorn)
		}
		return HeaderUint(msg.Header, "Nats-Num-Pending") == 0, nil
	case "503":
		return false, nats.ErrNoResponders
	}
	return false, fmt.Errorf("status %s %s", status, msg.Header.Get("Description"))
}

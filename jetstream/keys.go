package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

// Keys that expire are written by hand: the client's own Update has no time to
// live and would make a key permanent that another call had limited.

// headerOperation marks the message that stands for a deleted key.
const headerOperation = "KV-Operation"

// encodeValue makes the value of a key, which unmarshal reads.
func encodeValue(v any) ([]byte, error) {
	return wire.Encode(wire.CommandDepth, func(e *msgpack.Encoder) error { return e.Encode(v) })
}

// keyPut sets a key of a bucket, for as long as ttl says.
func (c *Cell) keyPut(ctx context.Context, bucket, key string, value []byte, ttl time.Duration) error {
	return c.keyWrite(ctx, bucket, key, &nats.Msg{Data: value, Header: nats.Header{
		jetstream.MsgTTLHeader: []string{ttl.String()},
	}})
}

// keyDelete takes a key away. What marks its place goes after ttl.
func (c *Cell) keyDelete(ctx context.Context, bucket, key string, ttl time.Duration) error {
	return c.keyWrite(ctx, bucket, key, &nats.Msg{Header: nats.Header{
		headerOperation:        []string{"DEL"},
		jetstream.MsgTTLHeader: []string{ttl.String()},
	}})
}

func (c *Cell) keyWrite(ctx context.Context, bucket, key string, msg *nats.Msg) error {
	msg.Subject = kvKey(bucket, key)
	err := patiently(ctx, func(ctx context.Context) error {
		_, err := c.publish(ctx, msg)
		return err
	})
	if err != nil {
		return fmt.Errorf("key %s: %w", key, c.explain(ctx, kvStream(bucket), err))
	}
	return nil
}

// keyGet returns a key's value as the leader knows it, or errNoMessage.
func (c *Cell) keyGet(ctx context.Context, bucket, key string) ([]byte, error) {
	m, err := c.leaderLast(ctx, kvStream(bucket), kvKey(bucket, key))
	switch {
	case errors.Is(err, errNoMessage) || err == nil && isMarker(m.Header):
		return nil, errNoMessage
	case err != nil:
		return nil, fmt.Errorf("key %s: %w", key, err)
	}
	return m.Data, nil
}

// isMarker reports whether a message stands for a key that was deleted or has
// expired.
func isMarker(h nats.Header) bool {
	return h.Get(headerOperation) != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

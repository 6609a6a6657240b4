package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// keyPut sets a key of a bucket, for as long as ttl says; for ever if it is zero.
func (c *Cell) keyPut(ctx context.Context, bucket, key string, value []byte, ttl time.Duration) error {
	msg := nats.NewMsg("")
	msg.Data = value
	if ttl > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, ttl.String())
	}
	return c.keyWrite(ctx, bucket, key, msg)
}

// keyDelete takes a key away. What marks its place goes after ttl; it stays if ttl is
// zero.
func (c *Cell) keyDelete(ctx context.Context, bucket, key string, ttl time.Duration) error {
	msg := nats.NewMsg("")
	msg.Header.Set(headerOperation, "DEL")
	if ttl > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, ttl.String())
	}
	return c.keyWrite(ctx, bucket, key, msg)
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
	m, err := c.keyStored(ctx, bucket, key)
	return m.Data, err
}

// keyStored is keyGet with what the stream knows beside the value.
func (c *Cell) keyStored(ctx context.Context, bucket, key string) (stored, error) {
	m, err := c.leaderLast(ctx, kvStream(bucket), kvKey(bucket, key))
	switch {
	case errors.Is(err, errNoMessage) || err == nil && m.gone():
		return stored{}, errNoMessage
	case err == nil && m.Aimed:
		return stored{}, fmt.Errorf("key %s: %w", key, errAimed)
	case err != nil:
		return stored{}, fmt.Errorf("key %s: %w", key, err)
	}
	return m, nil
}

// keys lists the keys of a bucket that a filter matches, sorted. Some of them may
// have been taken away.
func (c *Cell) keys(ctx context.Context, bucket, filter string) ([]string, error) {
	subjects, err := c.subjects(ctx, kvStream(bucket), kvKey(bucket, filter))
	if err != nil {
		return nil, err
	}
	var out []string
	for subject := range subjects {
		out = append(out, strings.TrimPrefix(subject, kvKey(bucket, "")))
	}
	slices.Sort(out)
	return out, nil
}

// lateExpiry is how much longer than its time to live a key is taken to stand: clocks
// differ.
const lateExpiry = time.Minute

// gone reports whether a message is no value of its key: it marks that there is none,
// or its time to live is over. A server that was killed forgets to expire keys that it
// held, so they come back with it.
func (m stored) gone() bool {
	ttl, err := time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader))
	return isMarker(m.Header) || err == nil && outlived(m.Time, ttl)
}

func outlived(since time.Time, ttl time.Duration) bool { return time.Since(since) > ttl+lateExpiry }

// isMarker reports whether a message stands for a key that was deleted or has
// expired.
func isMarker(h nats.Header) bool {
	return h.Get(headerOperation) != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

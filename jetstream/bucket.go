package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// bucket stores values of one type by key, one message per key. Most are part of a key-value
// bucket. It writes messages by hand: the client's Update takes no time to live, so it would make
// an expiring key permanent.
type bucket[T any] struct {
	cell   *Cell
	what   string // a value, in errors
	stream string
	prefix string        // of subjects; the key follows
	tokens int           // of a key
	ttl    time.Duration // of values and deletion markers; 0: forever
	blobs  bool          // a message may name a blob in place of its value
	once   bool          // writes are not retried

	encode func(*T) ([]byte, error)
	decode func([]byte) (T, error)
}

// item is the last message of a key.
type item[T any] struct {
	Key    string
	Value  T
	Err    error  // Value cannot be decoded
	Seq    uint64 // also of a deleted key; 0 if the key was never set
	At     time.Time
	Header nats.Header
}

// valueBucket returns the part of a key-value bucket whose keys have a prefix. Its values are
// MessagePack.
func valueBucket[T any](c *Cell, what string, name layout.Bucket, prefix string, tokens int, ttl time.Duration) bucket[T] {
	return bucket[T]{
		cell: c, what: what, stream: name.Stream(), prefix: name.Key(prefix), tokens: tokens, ttl: ttl,
		encode: func(v *T) ([]byte, error) { return encodeValue(v) },
		decode: func(data []byte) (v T, err error) { return v, decodeValue(data, &v) },
	}
}

// byteBucket returns a key-value bucket of raw bytes.
func byteBucket(c *Cell, what string, name layout.Bucket, tokens int) bucket[[]byte] {
	return bucket[[]byte]{
		cell: c, what: what, stream: name.Stream(), prefix: name.Key(""), tokens: tokens,
		encode: func(v *[]byte) ([]byte, error) { return *v, nil },
		decode: func(data []byte) ([]byte, error) { return data, nil },
	}
}

func encodeValue(v any) ([]byte, error) { return wire.Marshal(v, wire.Command) }

func decodeValue(data []byte, v any) error { return wire.Unmarshal(data, wire.Command, v) }

// valid reports whether a key can exist.
func (b bucket[T]) valid(key string) bool {
	tokens := strings.Split(key, ".")
	return len(tokens) == b.tokens && !slices.ContainsFunc(tokens, func(t string) bool { return !content.IsToken(t) })
}

func (b bucket[T]) failed(op, key string, err error) error {
	return fmt.Errorf("%s %s %q: %w", op, b.what, key, err)
}

// put sets a key and returns its sequence. If last is given, put fails with a conflict unless it is the key's
// last sequence.
func (b bucket[T]) put(ctx context.Context, key string, v T, last ...uint64) (uint64, error) {
	data, err := b.encode(&v)
	if err != nil {
		return 0, b.failed("put", key, err)
	}
	return b.write(ctx, "put", key, data, guard(last...))
}

// delete deletes a key, under the same condition as put.
func (b bucket[T]) delete(ctx context.Context, key string, last ...uint64) error {
	h := guard(last...)
	h.Set(layout.HeaderOperation, "DEL")
	_, err := b.write(ctx, "delete", key, nil, h)
	return err
}

// guard returns the header of a write that must directly follow the message at last, if that is given.
func guard(last ...uint64) nats.Header {
	h := nats.Header{}
	for _, seq := range last {
		h.Set(layout.HeaderGuard, strconv.FormatUint(seq, 10))
	}
	return h
}

// write publishes a message of a key.
func (b bucket[T]) write(ctx context.Context, op, key string, data []byte, h nats.Header) (seq uint64, err error) {
	if !b.valid(key) {
		return 0, b.failed(op, key, content.ErrBadID)
	}
	if b.ttl > 0 {
		h.Set(jetstream.MsgTTLHeader, b.ttl.String())
	}
	publish := func(ctx context.Context) error {
		seq, err = b.cell.api.Publish(ctx, &nats.Msg{Subject: b.prefix + key, Header: h, Data: data})
		return err
	}
	if b.once {
		err = publish(ctx)
	} else {
		err = api.Patiently(ctx, publish)
	}
	if err != nil {
		return 0, b.failed(op, key, b.cell.api.Explain(ctx, b.stream, err))
	}
	return seq, nil
}

// purge removes the messages of a key up to a sequence.
func (b bucket[T]) purge(ctx context.Context, key string, last uint64) error {
	if !b.valid(key) {
		return b.failed("purge", key, content.ErrBadID)
	}
	if err := b.cell.api.Purge(ctx, b.stream, b.prefix+key, last+1); err != nil {
		return b.failed("purge", key, err)
	}
	return nil
}

// get returns a key as the leader knows it. ok is false if it is deleted, expired or was never set.
func (b bucket[T]) get(ctx context.Context, key string) (it item[T], ok bool, err error) {
	it, ok, err = b.look(ctx, key)
	if it.Err != nil {
		return it, false, b.failed("get", key, it.Err)
	}
	return it, ok, err
}

// look is get without an error for a value that cannot be decoded.
func (b bucket[T]) look(ctx context.Context, key string) (it item[T], ok bool, err error) {
	it.Key = key
	if !b.valid(key) {
		return it, false, nil
	}
	m, err := b.cell.api.Last(ctx, b.stream, b.prefix+key)
	if errors.Is(err, api.ErrNoMessage) {
		return it, false, nil
	}
	it.Seq, it.At, it.Header = m.Seq, m.Time, m.Header
	var data []byte
	switch {
	case err == nil && m.Spoofed:
		it.Err = api.ErrSpoofed
		return it, true, nil
	case err == nil && m.Gone():
		return it, false, nil
	case err == nil && b.blobs:
		data, err = b.cell.unpack(ctx, m.Header, m.Data, 0)
	default:
		data = m.Data
	}
	if err != nil {
		return it, false, b.failed("get", key, err)
	}
	it.Value, it.Err = b.decode(data)
	return it, true, nil
}

// keys lists the keys that match a filter, sorted. Some may be deleted.
func (b bucket[T]) keys(ctx context.Context, filter string) ([]string, error) {
	subjects, err := b.cell.api.Subjects(ctx, b.stream, b.prefix+filter)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", b.what, err)
	}
	out := make([]string, 0, len(subjects))
	for subject := range subjects {
		if key := strings.TrimPrefix(subject, b.prefix); b.valid(key) { // a key could be the wildcard that the sender may publish on
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out, nil
}

// scan returns all keys of one token in the order in which they were written. Any replica may
// answer, so the latest may be missing. It skips values that cannot be decoded.
func (b bucket[T]) scan(ctx context.Context) ([]item[T], error) {
	var out []item[T]
	for m, err := range b.cell.api.Batches(ctx, b.stream, b.prefix+"*", 0) {
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", b.what, err)
		}
		it := item[T]{Key: strings.TrimPrefix(m.Subject, b.prefix), Seq: m.Seq, At: m.Time}
		if it.Value, err = b.decode(m.Data); err == nil && b.valid(it.Key) && !m.Spoofed && !m.Gone() {
			out = append(out, it)
		}
	}
	return out, nil
}

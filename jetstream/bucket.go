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
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// bucket is the part of a key-value bucket whose keys have a prefix and whose values have one
// type. It writes messages by hand: the client's Update has no time to live, and would make a
// key permanent that another write had limited.
type bucket[T any] struct {
	api    *api.Conn
	name   layout.Bucket
	prefix string
	ttl    time.Duration // of values and of deletion markers; 0: they stay

	encode func(*T) ([]byte, error)
	decode func([]byte, *T) error
}

// item is a key as a stream keeps it.
type item[T any] struct {
	Key   string // without the bucket's prefix
	Value T
	Seq   uint64 // also of a deleted key; 0 for one that never existed
	At    time.Time
}

// valueBucket returns a bucket of values in MessagePack.
func valueBucket[T any](c *Cell, name layout.Bucket, prefix string, ttl time.Duration) bucket[T] {
	return bucket[T]{
		api: c.api, name: name, prefix: prefix, ttl: ttl,
		encode: func(v *T) ([]byte, error) { return encodeValue(v) },
		decode: func(data []byte, v *T) error { return decodeValue(data, v) },
	}
}

// byteBucket returns a bucket of raw bytes.
func byteBucket(c *Cell, name layout.Bucket, ttl time.Duration) bucket[[]byte] {
	return bucket[[]byte]{
		api: c.api, name: name, ttl: ttl,
		encode: func(v *[]byte) ([]byte, error) { return *v, nil },
		decode: func(data []byte, v *[]byte) error { *v = data; return nil },
	}
}

func encodeValue(v any) ([]byte, error) {
	return wire.Encode(wire.CommandDepth, func(e *msgpack.Encoder) error { return e.Encode(v) })
}

// decodeValue decodes bytes that are not trusted.
func decodeValue(data []byte, v any) error { return wire.Unmarshal(data, wire.CommandDepth, v) }

func (b bucket[T]) stream() string            { return b.name.Stream() }
func (b bucket[T]) subject(key string) string { return b.name.Key(b.prefix + key) }

// put sets a key and returns its sequence.
func (b bucket[T]) put(ctx context.Context, key string, v T) (uint64, error) {
	data, err := b.encode(&v)
	if err != nil {
		return 0, fmt.Errorf("key %s: %w", key, err)
	}
	return b.write(ctx, key, data, nats.Header{})
}

// swap is put if the key's last sequence is still last; else it fails with a conflict.
func (b bucket[T]) swap(ctx context.Context, key string, v T, last uint64) (uint64, error) {
	data, err := b.encode(&v)
	if err != nil {
		return 0, fmt.Errorf("key %s: %w", key, err)
	}
	return b.write(ctx, key, data, guard(last))
}

// delete deletes a key.
func (b bucket[T]) delete(ctx context.Context, key string) error {
	_, err := b.write(ctx, key, nil, nats.Header{layout.HeaderOperation: {"DEL"}})
	return err
}

// deleteAt deletes a key if its last sequence is still last; else it fails with a conflict.
func (b bucket[T]) deleteAt(ctx context.Context, key string, last uint64) error {
	_, err := b.write(ctx, key, nil, withHeader(guard(last), layout.HeaderOperation, "DEL"))
	return err
}

// guard returns the header of a write that must directly follow the message at last.
func guard(last uint64) nats.Header {
	return nats.Header{layout.HeaderGuard: {strconv.FormatUint(last, 10)}}
}

func (b bucket[T]) write(ctx context.Context, key string, data []byte, h nats.Header) (seq uint64, err error) {
	if b.ttl > 0 {
		h.Set(jetstream.MsgTTLHeader, b.ttl.String())
	}
	err = api.Patiently(ctx, func(ctx context.Context) error {
		seq, err = b.api.Publish(ctx, &nats.Msg{Subject: b.subject(key), Header: h, Data: data})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("key %s: %w", key, b.api.Explain(ctx, b.stream(), err))
	}
	return seq, nil
}

// get returns a key as the leader knows it; ok is false if it is deleted, expired or was never
// set.
func (b bucket[T]) get(ctx context.Context, key string) (it item[T], ok bool, err error) {
	it.Key = key
	m, err := b.api.Last(ctx, b.stream(), b.subject(key))
	if errors.Is(err, api.ErrNoMessage) {
		return it, false, nil
	}
	it.Seq, it.At = m.Seq, m.Time
	switch {
	case err == nil && m.Spoofed:
		err = api.ErrSpoofed
	case err == nil && m.Gone():
		return it, false, nil
	case err == nil:
		err = b.decode(m.Data, &it.Value)
	}
	if err != nil {
		return it, false, fmt.Errorf("key %s: %w", key, err)
	}
	return it, true, nil
}

// keys lists the keys that match a filter, sorted. Some of them may be deleted.
func (b bucket[T]) keys(ctx context.Context, filter string) ([]string, error) {
	subjects, err := b.api.Subjects(ctx, b.stream(), b.subject(filter))
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(subjects))
	for subject := range subjects {
		out = append(out, strings.TrimPrefix(subject, b.subject("")))
	}
	slices.Sort(out)
	return out, nil
}

// scan returns the keys that match a filter, as any replica has them, in the order in which
// they were written. It skips values that cannot be decoded.
func (b bucket[T]) scan(ctx context.Context, filter string) ([]item[T], error) {
	var out []item[T]
	for m, err := range b.api.Batches(ctx, b.stream(), b.subject(filter), 0) {
		if err != nil {
			return nil, err
		}
		it := item[T]{Key: strings.TrimPrefix(m.Subject, b.subject("")), Seq: m.Seq, At: m.Time}
		if !m.Spoofed && !m.Gone() && b.decode(m.Data, &it.Value) == nil {
			out = append(out, it)
		}
	}
	return out, nil
}

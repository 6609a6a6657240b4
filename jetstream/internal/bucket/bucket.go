// Package bucket stores typed values by key in the streams of a cell, one message per key. Writes can be
// guarded, and values can expire.
package bucket

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

// Bucket stores values of one type. Most are part of a key-value bucket. It builds messages by hand: the
// client's Update does not set a time to live, so it would make an expiring key permanent.
type Bucket[T any] struct {
	API    *api.Conn
	What   string // what a value is, for errors
	Stream string
	Prefix string        // of subjects, before the key
	Tokens int           // tokens in a key
	TTL    time.Duration // of values and deletion markers; 0: forever
	Once   bool          // writes are not retried

	Encode func(*T) ([]byte, error)
	Decode func([]byte) (T, error)
	Unpack func(ctx context.Context, h nats.Header, data []byte) ([]byte, error) // nil: each message contains its value
}

// Item is the last message of a key.
type Item[T any] struct {
	Key    string
	Value  T
	Err    error  // set if Value cannot be decoded
	Seq    uint64 // also set for a deleted key; 0: the key was never set
	At     time.Time
	Header nats.Header
}

// OfValues returns the keys of a key-value bucket that have a prefix. Their values are MessagePack.
func OfValues[T any](conn *api.Conn, what string, name layout.Bucket, prefix string, tokens int, ttl time.Duration) Bucket[T] {
	return Bucket[T]{
		API: conn, What: what, Stream: name.Stream(), Prefix: name.Key(prefix), Tokens: tokens, TTL: ttl,
		Encode: func(v *T) ([]byte, error) { return wire.Marshal(v, wire.Command) },
		Decode: func(data []byte) (v T, err error) { return v, wire.Unmarshal(data, wire.Command, &v) },
	}
}

// OfBytes returns a key-value bucket of raw bytes.
func OfBytes(conn *api.Conn, what string, name layout.Bucket, tokens int) Bucket[[]byte] {
	return Bucket[[]byte]{
		API: conn, What: what, Stream: name.Stream(), Prefix: name.Key(""), Tokens: tokens,
		Encode: func(v *[]byte) ([]byte, error) { return *v, nil },
		Decode: func(data []byte) ([]byte, error) { return data, nil },
	}
}

// Valid reports whether a key can exist.
func (b Bucket[T]) Valid(key string) bool {
	tokens := strings.Split(key, ".")
	return len(tokens) == b.Tokens && !slices.ContainsFunc(tokens, func(t string) bool { return !content.IsToken(t) })
}

// Failed adds the operation and the key to an error.
func (b Bucket[T]) Failed(op, key string, err error) error {
	return fmt.Errorf("%s %s %q: %w", op, b.What, key, err)
}

// Put sets a key and returns its sequence. If last is given, Put fails with a conflict unless it is the
// key's last sequence.
func (b Bucket[T]) Put(ctx context.Context, key string, v T, last ...uint64) (uint64, error) {
	data, err := b.Encode(&v)
	if err != nil {
		return 0, b.Failed("put", key, err)
	}
	return b.Write(ctx, "put", key, data, Guard(last...))
}

// Delete deletes a key, under the same condition as Put.
func (b Bucket[T]) Delete(ctx context.Context, key string, last ...uint64) error {
	h := Guard(last...)
	h.Set(layout.HeaderOperation, "DEL")
	_, err := b.Write(ctx, "delete", key, nil, h)
	return err
}

// Guard returns the header of a write that must directly follow the message last. Without last, the write
// is not guarded.
func Guard(last ...uint64) nats.Header {
	h := nats.Header{}
	for _, seq := range last {
		h.Set(layout.HeaderGuard, strconv.FormatUint(seq, 10))
	}
	return h
}

// Write publishes a message for a key.
func (b Bucket[T]) Write(ctx context.Context, op, key string, data []byte, h nats.Header) (seq uint64, err error) {
	if !b.Valid(key) {
		return 0, b.Failed(op, key, content.ErrBadID)
	}
	if b.TTL > 0 {
		h.Set(jetstream.MsgTTLHeader, b.TTL.String())
	}
	publish := func(ctx context.Context) error {
		seq, err = b.API.Publish(ctx, &nats.Msg{Subject: b.Prefix + key, Header: h, Data: data})
		return err
	}
	if b.Once {
		err = publish(ctx)
	} else {
		err = api.Patiently(ctx, publish)
	}
	if err != nil {
		return 0, b.Failed(op, key, b.API.Explain(ctx, b.Stream, err))
	}
	return seq, nil
}

// Purge removes the messages of a key up to a sequence.
func (b Bucket[T]) Purge(ctx context.Context, key string, last uint64) error {
	if !b.Valid(key) {
		return b.Failed("purge", key, content.ErrBadID)
	}
	if err := b.API.Purge(ctx, b.Stream, b.Prefix+key, last+1); err != nil {
		return b.Failed("purge", key, err)
	}
	return nil
}

// Get returns the value of a key, according to the leader. ok is false if the key is deleted, expired or
// was never set.
func (b Bucket[T]) Get(ctx context.Context, key string) (it Item[T], ok bool, err error) {
	it, ok, err = b.Look(ctx, key)
	if it.Err != nil {
		return it, false, b.Failed("get", key, it.Err)
	}
	return it, ok, err
}

// Look is Get, but returns no error for a value that cannot be decoded; see Item.Err.
func (b Bucket[T]) Look(ctx context.Context, key string) (it Item[T], ok bool, err error) {
	it.Key = key
	if !b.Valid(key) {
		return it, false, nil
	}
	m, err := b.API.Last(ctx, b.Stream, b.Prefix+key)
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
	case err == nil && b.Unpack != nil:
		data, err = b.Unpack(ctx, m.Header, m.Data)
	default:
		data = m.Data
	}
	if err != nil {
		return it, false, b.Failed("get", key, err)
	}
	it.Value, it.Err = b.Decode(data)
	return it, true, nil
}

// Keys returns the keys that match a filter, sorted. Some may be deleted.
func (b Bucket[T]) Keys(ctx context.Context, filter string) ([]string, error) {
	subjects, err := b.API.Subjects(ctx, b.Stream, b.Prefix+filter)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", b.What, err)
	}
	out := make([]string, 0, len(subjects))
	for subject := range subjects {
		if key := strings.TrimPrefix(subject, b.Prefix); b.Valid(key) { // the sender may be allowed to publish on a wildcard as a key
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Scan returns all keys in the order in which they were written. Any replica may answer, so the latest may
// be missing. It skips values that cannot be decoded.
func (b Bucket[T]) Scan(ctx context.Context) ([]Item[T], error) {
	var out []Item[T]
	for m, err := range b.API.Batches(ctx, b.Stream, b.Prefix+"*"+strings.Repeat(".*", b.Tokens-1), 0) {
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", b.What, err)
		}
		it := Item[T]{Key: strings.TrimPrefix(m.Subject, b.Prefix), Seq: m.Seq, At: m.Time}
		if it.Value, err = b.Decode(m.Data); err == nil && b.Valid(it.Key) && !m.Spoofed && !m.Gone() {
			out = append(out, it)
		}
	}
	return out, nil
}

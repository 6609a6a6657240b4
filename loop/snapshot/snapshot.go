// Package snapshot writes a loop.State down and reads it back, so that a host need
// not fold a long journal from its beginning.
//
// A snapshot is a cache: it may be lost or refused at any time, and the journal
// says the same. It names its format, and a release that does not know it reads
// the journal instead.
package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
)

// Version is the format that this release writes. It changes with the fields of
// loop.State.
const Version = 7

// depth is how deep a state may nest: its items stand a little deeper than in the
// entries that brought them.
const depth = wire.EntryDepth + 16

// ErrUnusable is returned by Decode for bytes of another format; fold the journal.
var ErrUnusable = errors.New("snapshot cannot be used")

// segment is how many items are read by one goroutine, beside others.
const segment = 8192

// head is what stands before the transcript.
type head struct {
	State    *loop.State `msgpack:"s"` // without its transcript
	Segments []int       `msgpack:"g"` // of the transcript, their lengths in bytes
}

// Encode returns the bytes of s: the format, the head, the segments of the transcript.
func Encode(s *loop.State) ([]byte, error) {
	short := *s
	short.Transcript = nil
	h := head{State: &short}
	var segments []byte
	for items := range slices.Chunk(s.Transcript, segment) {
		before := len(segments)
		segments = wire.AppendList(segments, items, (*content.Item).Fields)
		h.Segments = append(h.Segments, len(segments)-before)
	}
	front, err := wire.Encode(depth, func(e *msgpack.Encoder) error { return e.Encode(&h) })
	if err != nil {
		return nil, fmt.Errorf("encode snapshot of %s at %d: %w", s.Session, s.Seq, err)
	}
	return slices.Concat([]byte{Version}, front, segments), nil
}

// Decode reads what Encode wrote. It returns ErrUnusable for anything else.
func Decode(b []byte) (*loop.State, error) {
	if len(b) == 0 || b[0] != Version { // which is a value of its own
		return nil, fmt.Errorf("%w: it is not of format %d", ErrUnusable, Version)
	}
	h := head{State: new(loop.State)}
	rest, err := wire.DecodeFirst(b[1:], depth, func(d *msgpack.Decoder) error { return d.Decode(&h) })
	if err == nil && h.State == nil {
		err = errors.New("it has no state")
	}
	if err == nil {
		h.State.Transcript, err = decodeTranscript(rest, h.Segments)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return h.State, nil
}

func decodeTranscript(b []byte, lengths []int) ([]content.Item, error) {
	segments := make([][]byte, len(lengths))
	for i, n := range lengths {
		if n < 0 || n > len(b) {
			return nil, fmt.Errorf("segment %d has %d bytes, and %d are left", i, n, len(b))
		}
		segments[i], b = b[:n], b[n:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes follow the last segment", len(b))
	}
	items, errs := make([][]content.Item, len(segments)), make([]error, len(segments))
	var reading sync.WaitGroup
	for i, one := range segments {
		reading.Go(func() { items[i], errs[i] = wire.DecodeList(one, depth, (*content.Item).Fields) })
	}
	reading.Wait()
	return slices.Concat(items...), errors.Join(errs...)
}

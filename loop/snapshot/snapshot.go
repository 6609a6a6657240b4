// Package snapshot encodes a loop.State, so a host need not fold a long journal from its
// start.
//
// A snapshot is a cache: it may be lost or refused at any time, and folding the journal gives
// the same state. It starts with its format, and a release that does not know that format
// folds the journal instead.
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

// Version is the format of this release. It changes with the fields of loop.State.
const Version = 7

// depth is how deep a state may nest: its items nest slightly deeper than in entries.
const depth = wire.EntryDepth + 16

// ErrUnusable is returned by Decode for bytes of another format. Fold the journal instead.
var ErrUnusable = errors.New("snapshot cannot be used")

// segment is how many items one goroutine decodes.
const segment = 8192

// head precedes the transcript.
type head struct {
	State    *loop.State `msgpack:"s"` // without its transcript
	Segments []int       `msgpack:"g"` // lengths of the transcript's segments in bytes
}

// Encode returns the snapshot of s: the format, the head, the transcript in segments.
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
	if len(b) == 0 || b[0] != Version {
		return nil, fmt.Errorf("%w: not of format %d", ErrUnusable, Version)
	}
	h := head{State: new(loop.State)}
	rest, err := wire.DecodeFirst(b[1:], depth, func(d *msgpack.Decoder) error { return d.Decode(&h) })
	if err == nil && h.State == nil {
		err = errors.New("no state")
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
	var group sync.WaitGroup
	for i, one := range segments {
		group.Go(func() { items[i], errs[i] = wire.DecodeList(one, depth, (*content.Item).Fields) })
	}
	group.Wait()
	return slices.Concat(items...), errors.Join(errs...)
}

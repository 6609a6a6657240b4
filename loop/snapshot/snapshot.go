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

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
)

// Version is the format of this release. It changes with the fields of loop.State.
const Version = 18

// ErrUnusable is returned by Decode for bytes of another format. Fold the journal instead.
var ErrUnusable = errors.New("snapshot cannot be used")

// segment is how many items one goroutine decodes.
const segment = 8192

// parts is the content of a snapshot. The segments of the transcript are decoded concurrently.
type parts struct {
	State    *loop.State `msgpack:"s"` // without its transcript
	Segments [][]byte    `msgpack:"g"` // of the transcript
}

// Encode returns the snapshot of s.
func Encode(s *loop.State) ([]byte, error) {
	short := *s
	short.Transcript = nil
	p := parts{State: &short}
	var errs []error
	for items := range slices.Chunk(s.Transcript, segment) {
		b, err := wire.Marshal(items, wire.Snapshot)
		p.Segments, errs = append(p.Segments, b), append(errs, err)
	}
	b, err := wire.Marshal(&p, wire.Snapshot)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("encode snapshot of %s at %d: %w", s.Session, s.Seq, err)
	}
	return slices.Insert(b, 0, byte(Version)), nil
}

// Decode reads what Encode wrote. It returns ErrUnusable for anything else.
func Decode(b []byte) (*loop.State, error) {
	if len(b) == 0 || b[0] != Version {
		return nil, fmt.Errorf("%w: not of format %d", ErrUnusable, Version)
	}
	var p parts
	err := wire.Unmarshal(b[1:], wire.Snapshot, &p)
	if err == nil && p.State == nil {
		err = errors.New("no state")
	}
	if err == nil && len(p.Segments) > len(b)/segment+1 { // all but the last are full
		err = fmt.Errorf("%d segments in %d bytes", len(p.Segments), len(b))
	}
	if err == nil {
		p.State.Transcript, err = decodeTranscript(p.Segments)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return p.State, nil
}

func decodeTranscript(segments [][]byte) ([]content.Item, error) {
	items, errs := make([][]content.Item, len(segments)), make([]error, len(segments))
	var group sync.WaitGroup
	for i, b := range segments {
		group.Go(func() { errs[i] = wire.Unmarshal(b, wire.Snapshot, &items[i]) })
	}
	group.Wait()
	return slices.Concat(items...), errors.Join(errs...)
}

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

// Encode returns the bytes of s: the format, s without its transcript, the transcript.
func Encode(s *loop.State) ([]byte, error) {
	short := *s
	short.Transcript = nil
	head, err := wire.Encode(depth, func(e *msgpack.Encoder) error { return e.Encode(&short) })
	if err != nil {
		return nil, fmt.Errorf("encode snapshot of %s at %d: %w", s.Session, s.Seq, err)
	}
	return wire.AppendList(append([]byte{Version}, head...), s.Transcript, (*content.Item).Fields), nil
}

// Decode reads what Encode wrote. It returns ErrUnusable for anything else.
func Decode(b []byte) (*loop.State, error) {
	if len(b) == 0 || b[0] != Version { // which is a value of its own
		return nil, fmt.Errorf("%w: it is not of format %d", ErrUnusable, Version)
	}
	s := new(loop.State)
	rest, err := wire.DecodeFirst(b[1:], depth, func(d *msgpack.Decoder) error { return d.Decode(s) })
	if err == nil {
		s.Transcript, err = wire.DecodeList(rest, depth, (*content.Item).Fields)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return s, nil
}

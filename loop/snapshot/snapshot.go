// Package snapshot writes a loop.State down and reads it back, so that a host need
// not fold a long journal from its beginning.
//
// A snapshot is a cache: it may be lost or refused at any time, and the journal
// says the same. It names its format, and a release that does not know it reads
// the journal instead.
package snapshot

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
)

// Version is the format that this release writes. It changes with the fields of
// loop.State.
const Version = 6

// depth is how deep a state may nest: its items stand a little deeper than in the
// entries that brought them.
const depth = wire.EntryDepth + 16

// ErrUnusable is returned by Decode for bytes of another format; fold the journal.
var ErrUnusable = errors.New("snapshot cannot be used")

// Encode returns the bytes of s.
func Encode(s *loop.State) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	if err := errors.Join(enc.EncodeInt(Version), enc.Encode(s)); err != nil {
		return nil, fmt.Errorf("encode snapshot of %s at %d: %w", s.Session, s.Seq, err)
	}
	return buf.Bytes(), nil
}

// Decode reads what Encode wrote. It returns ErrUnusable for anything else.
func Decode(b []byte) (*loop.State, error) {
	if len(b) == 0 || b[0] != Version { // a compact integer is its own byte
		return nil, fmt.Errorf("%w: it is not of format %d", ErrUnusable, Version)
	}
	if err := wire.Check(b[1:], depth); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	s := new(loop.State)
	if err := msgpack.Unmarshal(b[1:], s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return s, nil
}

package events

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
)

// FormatError is returned by [Decode] for an entry in the format of a later release.
// The entry is not damaged: show it raw, or use a later release. A FormatError is an
// [ErrUnknownKind].
type FormatError struct {
	Version int
}

// Error says which formats this release reads.
func (e *FormatError) Error() string {
	return fmt.Sprintf("format version %d is newer than this release, which reads up to %d: use a release that reads %d",
		e.Version, Version, e.Version)
}

// Is makes the error an [ErrUnknownKind].
func (e *FormatError) Is(target error) bool { return target == ErrUnknownKind }

// laterFormat decodes as much as possible of an entry in a later format. It returns
// nil for a damaged one. In every format, an entry is an array that begins with the
// version. The head is decoded if it has not changed.
func laterFormat(payload []byte) (Entry, *FormatError) {
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(payload))
	if n, err := dec.DecodeArrayLen(); err != nil || n < 1 {
		return Entry{}, nil
	}
	version, err := dec.DecodeInt()
	if err != nil || version <= Version {
		return Entry{}, nil
	}
	head := Entry{Version: version}
	var session string
	var at int64
	if dec.DecodeMulti(&session, &head.Seq, &head.Prev, &head.Cause, &at, &head.Epoch, &head.Cursors) != nil {
		return Entry{Version: version}, &FormatError{version}
	}
	head.Session, head.At = content.SessionID(session), content.Time(at)
	return head, &FormatError{version}
}

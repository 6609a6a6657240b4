// Package later reads what can be known of entries that a later release wrote in a
// format of its own.
//
// The one idea: whatever a format is, an entry is an array that begins with the
// format's version. So an entry of a later format is told from damage, and shown
// with its bytes; where its head stands as it does today, that is known too.
//
// To test against it, encode an entry and change its first field.
package later

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
)

// FormatError is returned for an entry of a later format. Like an unknown kind of
// event it is no damage: show the entry raw, and read it with a later release. It
// is an events.ErrUnknownKind.
type FormatError struct {
	Version int
}

// Error says which formats can be read.
func (e *FormatError) Error() string {
	return fmt.Sprintf("format version %d is newer than this release, which reads up to %d: use a release that reads %d",
		e.Version, events.Version, e.Version)
}

// Is reports that the entry holds what this release does not know.
func (e *FormatError) Is(target error) bool { return target == events.ErrUnknownKind }

// Decode is events.Decode, which also knows entries of a later format: it returns a
// *FormatError for one, with the entry's head if that can be read and Seq 0 if not.
func Decode(payload []byte) (events.Entry, error) {
	e, err := events.Decode(payload)
	if !errors.Is(err, events.ErrBadEntry) || wire.Check(payload, wire.EntryDepth) != nil {
		return e, err
	}
	dec := msgpack.NewDecoder(bytes.NewReader(payload))
	if n, headErr := dec.DecodeArrayLen(); headErr != nil || n < 1 {
		return e, err
	}
	version, headErr := dec.DecodeInt()
	if headErr != nil || version <= events.Version {
		return e, err
	}
	head := events.Entry{Version: version}
	var session string
	var at int64
	if dec.DecodeMulti(&session, &head.Seq, &head.Prev, &head.Cause, &at, &head.Epoch, &head.Cursors) != nil {
		return events.Entry{Version: version}, &FormatError{version}
	}
	head.Session, head.At = content.SessionID(session), content.Time(at)
	return head, &FormatError{version}
}

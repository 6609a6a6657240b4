package events

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
)

// FormatError is returned by [Decode] for an entry that a later release wrote in a
// format of its own. Like an unknown kind of event it is no damage: show the entry
// raw, and read it with a later release. It is an [ErrUnknownKind].
type FormatError struct {
	Version int
}

// Error says which formats can be read.
func (e *FormatError) Error() string {
	return fmt.Sprintf("format version %d is newer than this release, which reads up to %d: use a release that reads %d",
		e.Version, Version, e.Version)
}

// Is reports that the entry holds what this release does not know.
func (e *FormatError) Is(target error) bool { return target == ErrUnknownKind }

// laterFormat reads what can be known of an entry of a later format, or returns nil
// for one that is damaged. Whatever a format is, an entry is an array that begins with
// the format's version; where its head stands as it does today, that is known too.
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

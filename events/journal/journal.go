// Package journal keeps a session's entries in order.
//
// The one idea: an append is guarded by the end of the journal that the writer
// has read, so two writers can never both extend the same end (the invariant
// single-writer). An append has three outcomes, not two: written, [ErrConflict],
// or [ErrUnknown]; after the third, read before you write.
//
// [Memory] keeps the contract in process; package journaltest holds every
// implementation to it.
package journal

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// ErrConflict is returned by Append when the journal does not end where the
// writer thinks: another writer appended. Stop; read again from the last known entry.
var ErrConflict = errors.New("journal conflict")

// ErrUnknown is returned by Append when it is unknown whether the entry was
// written. Stop; a fresh reader finds the entry by its cause, or does not.
var ErrUnknown = errors.New("journal append outcome unknown")

// ErrDamaged is returned by readers for entries that do not form one chain.
// Nothing may be appended; `observer verify` says what is wrong.
var ErrDamaged = errors.New("journal damaged")

// ErrNotFound is returned by Last for a session without a journal.
var ErrNotFound = errors.New("no such session")

// Head is where a journal ends. The zero Head is that of an empty journal.
type Head struct {
	Seq   uint64      // of the last entry
	Hash  events.Hash // of the last entry
	Guard uint64      // the store's own position of the last entry; opaque
}

// Snapshot is a session's state after an entry, as package loop/snapshot encodes it. It
// saves reading the entries before, and is never the only copy of anything.
type Snapshot struct {
	Head  // where the journal continues
	State []byte
}

// Record is an entry as it is stored.
type Record struct {
	Head
	Entry   events.Entry
	Payload []byte    // the exact bytes
	Err     error     // events.ErrUnknownKind: the entry is shown raw, Entry has its head only
	Stored  time.Time // by the store's clock; zero if it keeps none
}

// Journal keeps the journals of many sessions. Implementations are safe for
// concurrent use.
type Journal interface {
	// Append writes e after head and returns the new head. It fills in the
	// entry's Version, Seq and Prev. Errors: ErrConflict, ErrUnknown, or a plain
	// one if nothing was written for certain.
	Append(ctx context.Context, head Head, e events.Entry) (Head, error)

	// Read yields the entries after a sequence number, in order, up to the end
	// as it was when Read was called or later. A session without a journal yields
	// nothing. An error ends the sequence.
	Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Record, error]

	// Last returns the last entry, read from where appends are decided.
	Last(ctx context.Context, s content.SessionID) (Record, error)

	// Follow yields the entries after a sequence number and goes on with new ones
	// as they are written, without gap or repetition, until ctx ends.
	Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Record, error]
}

// Seal completes e as the successor of head and returns its exact bytes with the
// head that it makes, Guard left zero. Every implementation of Append uses it.
func Seal(head Head, e events.Entry) (events.Entry, []byte, Head, error) {
	e.Version = events.Version
	e.Seq = head.Seq + 1
	e.Prev = head.Hash
	payload, err := e.Encode()
	if err != nil {
		return e, nil, Head{}, err
	}
	return e, payload, Head{Seq: e.Seq, Hash: events.HashOf(payload)}, nil
}

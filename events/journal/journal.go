// Package journal keeps a session's entries in order.
//
// An append is guarded by the end of the journal that the writer has read, so two writers never both
// append after the same entry (the invariant single-writer). An append has three outcomes: written,
// [ErrConflict], or [ErrUnknown]. After the third, read before writing.
//
// [Memory] implements the contract in the process. Package journaltest tests every implementation.
package journal

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// ErrConflict is returned by Append when another writer has appended after head. Stop, and read again
// from the last known entry.
var ErrConflict = errors.New("journal conflict")

// ErrUnknown is returned by Append when it is unknown whether the entry was written. Stop, and look for
// its cause in the journal.
var ErrUnknown = errors.New("journal append outcome unknown")

// ErrDamaged is returned by readers for entries that do not form one chain. Append nothing; `observer
// verify` describes the damage.
var ErrDamaged = errors.New("journal damaged")

// ErrNotFound is returned by Last for a session without a journal.
var ErrNotFound = errors.New("no such session")

// Head is the end of a journal. The zero Head is the end of an empty journal.
type Head struct {
	Seq   uint64      // sequence of the last entry
	Hash  events.Hash // hash of the last entry
	Guard uint64      // the store's position of the last entry; opaque
}

// Snapshot is a session's state after an entry, as package loop/snapshot encodes it. It saves reading the
// earlier entries, from which it is computed. It counts only if the next entry has its digest.
type Snapshot struct {
	Head         // the entry
	State []byte // the index, which names the chunks
}

// Record is a stored entry.
type Record struct {
	Head
	Entry   events.Entry
	Payload []byte    // the exact bytes
	Err     error     // events.ErrUnknownKind: Entry has only the head, and the events that are not sealed
	Stored  time.Time // by the store's clock; zero if it has none, or if the entry was moved here
	Moved   bool      // the entry was first stored in another cell, and moved here with its session
	Line    int       // line in the file from which it was read; 0: none

	TraceParent string // trace context of the causing command, stored next to the entry; "": none

	// Signature is the driver's, stored next to the entry, or zero. Readers do not check it.
	Signature content.Signature
}

// Journal keeps the journals of many sessions. Implementations are safe for concurrent use.
type Journal interface {
	// Append writes e after head and returns the new head. It sets the entry's Version, Seq and Prev.
	// It returns ErrConflict, ErrUnknown, or another error if certainly nothing was written.
	Append(ctx context.Context, head Head, e events.Entry) (Head, error)

	// Read yields the entries after a sequence number, in order, at least up to the end at the time of
	// the call. It yields nothing for a session without a journal. An error ends the sequence.
	Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Record, error]

	// Last returns the last entry. A replica that lacks acknowledged appends must not answer.
	Last(ctx context.Context, s content.SessionID) (Record, error)

	// Follow yields the entries after a sequence number, then new ones as they are written, without gap
	// or repetition, until ctx ends.
	Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Record, error]
}

// All yields records that were read before, in the way a journal does.
func All(records []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Link completes e as the successor of head. It returns the entry, its exact bytes and the new head
// without Guard. Every implementation of Append uses it.
func Link(head Head, e events.Entry) (events.Entry, []byte, Head, error) {
	e.Version = events.Version
	if e.Sealing != nil {
		e.Version = events.VersionSealed
	}
	e.Seq = head.Seq + 1
	e.Prev = head.Hash
	payload, err := e.Encode()
	if err != nil {
		return e, nil, Head{}, err
	}
	return e, payload, Head{Seq: e.Seq, Hash: events.HashOf(payload)}, nil
}

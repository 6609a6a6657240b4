package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// ErrCursor is returned by Observe if the journal does not have the entry that a cursor names, or has
// another one there. The cursor is from another cell or session, or the store lost entries. Investigate,
// then start with another cursor.
var ErrCursor = errors.New("cursor does not match the journal")

// Cursor is the position of an observer after an entry. The zero Cursor is before the first one. An
// observer that stores the cursor after it has handled an entry, and restarts from there, receives every
// entry at least once. In JSON a cursor is one line.
type Cursor struct {
	Position uint64            `json:"position"`          // in the cell's journal; the same for all observers
	Session  content.SessionID `json:"session,omitempty"` // of the entry
	Seq      uint64            `json:"seq,omitempty"`     // of the entry in its session
	Hash     events.Hash       `json:"hash,omitzero"`     // of the entry; zero matches any
}

// CursorAt returns the cursor after a record of this package.
func CursorAt(rec journal.Record) Cursor {
	return Cursor{Position: rec.Guard, Session: rec.Entry.Session, Seq: rec.Seq, Hash: rec.Hash}
}

// Follow yields the entries after a sequence number, then new ones as they are written. It ends without
// an error when ctx ends, and waits while the servers do not answer. Live copies are only hints: each
// entry is verified against the chain, and read from the stream when in doubt.
func (j *Journal) Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return j.follow(ctx, s, journal.Head{}, after, nil)
}

// FollowFrom follows the entries after head without reading earlier ones. It ends with
// journal.ErrDamaged if they do not continue head's chain.
func (j *Journal) FollowFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return j.follow(ctx, s, head, head.Seq, nil)
}

// End returns the cursor after the last entry of a session, or of AllSessions, so that Observe yields only
// new entries. Without entries it returns the zero Cursor.
func (j *Journal) End(ctx context.Context, s content.SessionID) (Cursor, error) {
	n := j.cell.names
	if s != AllSessions && !content.IsToken(string(s)) {
		return Cursor{}, fmt.Errorf("end of %q: %w", s, content.ErrBadID)
	}
	m, err := j.cell.api.Last(ctx, n.JournalStream(), n.Journal(s))
	rec, err := j.found(ctx, cmp.Or(n.SessionOf(m.Subject), s), "end", m, err)
	if err != nil && !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNotFound) {
		return Cursor{}, err
	}
	return CursorAt(rec), nil
}

// Observe yields the entries after a cursor, then new ones as they are written: those of one session, or of
// AllSessions in the order of storage. There are no gaps or repetitions, whatever happens to connections
// and servers. CursorAt returns the cursor after each entry. If the cursor has a hash and the entry that it
// names does not exist, Observe ends with ErrCursor. It ends without an error when ctx ends.
//
// For one session the chain is verified, and a damaged entry ends the sequence with journal.ErrDamaged. For
// all sessions, a damaged entry has that error as its Err, and chains are not verified. So only the server
// may publish under the live prefix.
func (j *Journal) Observe(ctx context.Context, s content.SessionID, from Cursor) iter.Seq2[journal.Record, error] {
	if s == AllSessions {
		return j.observeAll(ctx, from)
	}
	head := journal.Head{Seq: from.Seq, Hash: from.Hash, Guard: from.Position}
	if from.Hash.IsZero() {
		head = journal.Head{}
	}
	return j.follow(ctx, s, head, from.Seq, j.confirming(s, from))
}

// follow reads from the head of ch, and yields entries after a sequence number. begin runs first.
func (j *Journal) follow(
	ctx context.Context, s content.SessionID, head journal.Head, after uint64, begin func(context.Context) error,
) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if !content.IsToken(string(s)) {
			yield(journal.Record{}, fmt.Errorf("follow %q: %w", s, content.ErrBadID))
			return
		}
		ch := chain{session: s, head: head}
		t := j.tail(j.cell.names.Journal(s), head.Guard, begin)
		t.Adjacent = func(_ api.Message, before uint64) bool { return before == t.At }
		t.Use = func(m api.Message, _ bool) error {
			if ch.head.Seq < after && ch.skip(m, after) || ch.deleted && m.Seq <= ch.head.Guard {
				return nil
			}
			rec, err := j.record(ctx, s, m)
			if err == nil {
				rec, err = j.extend(ctx, &ch, rec)
			}
			if err != nil || rec.Seq <= after {
				return err
			}
			return enough(yield(rec, nil))
		}
		if err := j.cell.api.Follow(ctx, t); err != nil {
			yield(journal.Record{}, fmt.Errorf("follow %s after %d: %w", s, ch.head.Seq, err))
		}
	}
}

func (j *Journal) observeAll(ctx context.Context, from Cursor) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		n := j.cell.names
		t := j.tail(n.Journal(AllSessions), from.Position, j.confirming(AllSessions, from))
		t.Adjacent = func(m api.Message, _ uint64) bool { return m.Seq == t.At+1 }
		t.Use = func(m api.Message, live bool) error {
			rec, err := j.record(ctx, n.SessionOf(m.Subject), m)
			if errors.Is(err, journal.ErrDamaged) && !live {
				rec.Err, err = err, nil // the other sessions continue
			}
			if err != nil {
				return err
			}
			return enough(yield(rec, nil))
		}
		if err := j.cell.api.Follow(ctx, t); err != nil {
			yield(journal.Record{}, fmt.Errorf("observe all sessions after position %d: %w", t.At, err))
		}
	}
}

func (j *Journal) tail(subject string, at uint64, begin func(context.Context) error) *api.Tail {
	n := j.cell.names
	return &api.Tail{Stream: n.JournalStream(), Subject: subject, Live: n.Live(subject), At: at, Begin: begin}
}

// enough returns the error that ends a Tail whose reader wants no more.
func enough(more bool) error {
	if more {
		return nil
	}
	return api.ErrEnough
}

// confirming returns a function that verifies that a cursor's entry exists. It returns nil if the cursor
// names no entry.
func (j *Journal) confirming(s content.SessionID, c Cursor) func(context.Context) error {
	switch {
	case s != AllSessions && c.Session != "" && c.Session != s:
		return func(context.Context) error { return fmt.Errorf("%w: it belongs to session %s", ErrCursor, c.Session) }
	case c.Hash.IsZero():
		return nil
	}
	return func(ctx context.Context) error { return j.confirm(ctx, c) }
}

func (j *Journal) confirm(ctx context.Context, c Cursor) error {
	n := j.cell.names
	m, err := j.cell.api.Next(ctx, n.JournalStream(), n.Journal(AllSessions), c.Position)
	if api.IsNotFound(err) || err == nil && m.Seq != c.Position {
		last, _ := j.Last(ctx, c.Session)
		next, _ := j.record(ctx, n.SessionOf(m.Subject), m)
		first, _ := j.From(ctx, c.Session, 1)
		_, deleted := events.DeletionOf(last.Entry)
		if deleted && last.Guard > c.Position || events.RestoredOf(next.Entry) != nil || first.Moved && first.Guard > c.Position {
			return nil // deleted with its session, lost in a restore, or replaced when the session came back
		}
		return fmt.Errorf("%w: there is no entry at position %d", ErrCursor, c.Position)
	}
	if err != nil {
		return err
	}
	s := n.SessionOf(m.Subject)
	rec, err := j.record(ctx, s, m)
	switch {
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		return err
	case c.Session != s || rec.Hash != c.Hash:
		return fmt.Errorf("%w: position %d has entry %d of session %s with hash %s, want %d of %s with %s",
			ErrCursor, c.Position, rec.Seq, s, rec.Hash, c.Seq, c.Session, c.Hash)
	}
	return nil
}

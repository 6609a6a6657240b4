package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// ErrCursor is returned by Observe when the entry that a cursor stands behind is not
// in the journal, or is another one: the cursor is of another cell or session, or the
// store lost entries. Nothing is left out in silence; look into it, and begin with
// another cursor.
var ErrCursor = errors.New("cursor does not fit the journal")

// Cursor is where an observer stands: behind an entry. The zero Cursor stands before
// the first one. An observer that stores a cursor once it has dealt with the entry,
// and goes on from there when it is started again, gets every entry at least once:
// what it had dealt with and not stored comes again, nothing is left out. As JSON a
// cursor is a line that fits a file or a column.
type Cursor struct {
	Position uint64            `json:"position"`          // in the journal of the cell, the same for all observers
	Session  content.SessionID `json:"session,omitempty"` // whose entry it is
	Seq      uint64            `json:"seq,omitempty"`     // of the entry in its session
	Hash     events.Hash       `json:"hash,omitzero"`     // of the entry; zero: any will do
}

// CursorAt returns the cursor behind a record of this package's.
func CursorAt(rec journal.Record) Cursor {
	return Cursor{Position: rec.Guard, Session: rec.Entry.Session, Seq: rec.Seq, Hash: rec.Hash}
}

// End returns the cursor behind the last entry of a session, or of AllSessions, so
// that Observe yields what is written from now on. Where nothing is written it is the
// zero Cursor.
func (j *Journal) End(ctx context.Context, s content.SessionID) (Cursor, error) {
	n := j.cell.names
	if s != AllSessions && !content.IsToken(string(s)) {
		return Cursor{}, fmt.Errorf("end of %q: %w", s, content.ErrBadID)
	}
	m, err := j.cell.leaderLast(ctx, n.journalStream(), n.journal(s))
	switch {
	case isNotFound(err):
		return Cursor{}, nil
	case err != nil:
		return Cursor{}, fmt.Errorf("end of %s: %w", s, err)
	}
	rec, err := j.record(ctx, n.sessionOf(m.Subject), m)
	if err != nil && !errors.Is(err, journal.ErrDamaged) {
		return Cursor{}, fmt.Errorf("end of %s: %w", s, err)
	}
	return CursorAt(rec), nil
}

// Observe yields the entries behind a cursor, those of one session or, in the order
// in which they were written, those of AllSessions; then new ones as they come. There
// is no gap and no repetition, whatever happens to connections and servers; CursorAt
// gives the cursor behind each. Where the cursor has a hash, the entry that it names
// must be there, else Observe ends with ErrCursor.
//
// Of one session the entries are checked to be a chain, and a damaged one ends it with
// journal.ErrDamaged. Of all sessions a damaged one is shown with its Err set to that,
// and chains are not checked, so it relies on nobody but the server publishing below
// the live prefix. It ends without an error when ctx ends.
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

// confirming returns what confirms that the entry which a cursor names is there; nil
// if it names none.
func (j *Journal) confirming(s content.SessionID, c Cursor) func(context.Context) error {
	switch {
	case s != AllSessions && c.Session != "" && c.Session != s:
		return func(context.Context) error { return fmt.Errorf("%w: it is of session %s", ErrCursor, c.Session) }
	case c.Hash.IsZero():
		return nil
	}
	return func(ctx context.Context) error { return j.confirm(ctx, c) }
}

func (j *Journal) confirm(ctx context.Context, c Cursor) error {
	n := j.cell.names
	m, err := j.cell.leaderNext(ctx, n.journalStream(), n.allJournals(), c.Position)
	if isNotFound(err) || err == nil && m.Seq != c.Position {
		if last, err := j.Last(ctx, c.Session); err == nil && last.Guard > c.Position {
			if _, deleted := events.DeletionOf(last.Entry); deleted {
				return nil // it went with its session
			}
		}
		return fmt.Errorf("%w: there is no entry at position %d", ErrCursor, c.Position)
	}
	if err != nil {
		return err
	}
	s := n.sessionOf(m.Subject)
	rec, err := j.record(ctx, s, m)
	switch {
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		return err
	case c.Session != s || rec.Hash != c.Hash:
		return fmt.Errorf("%w: at position %d is entry %d of session %s with hash %s, not %d of %s with %s",
			ErrCursor, c.Position, rec.Seq, s, rec.Hash, c.Seq, c.Session, c.Hash)
	}
	return nil
}

func (j *Journal) observeAll(ctx context.Context, from Cursor) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		n := j.cell.names
		t := tail{cell: j.cell, stream: n.journalStream(), subject: n.allJournals(), at: from.Position}
		t.begin = j.confirming(AllSessions, from)
		t.adjacent = func(m stored, _ uint64) bool { return m.Seq == t.at+1 }
		t.use = func(m stored, live bool) error {
			rec, err := j.record(ctx, n.sessionOf(m.Subject), m)
			if errors.Is(err, journal.ErrDamaged) && !live {
				rec.Err, err = err, nil // not the end of the other sessions
			}
			if err != nil {
				return err
			}
			return goOn(yield(rec, nil))
		}
		if err := t.run(ctx); err != nil {
			yield(journal.Record{}, fmt.Errorf("observe all sessions behind position %d: %w", t.at, err))
		}
	}
}

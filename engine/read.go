package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// Snapshots finds the snapshots of sessions.
type Snapshots interface {
	// Get returns the newest snapshot of a session, and false if there is none.
	Get(ctx context.Context, s content.SessionID) (journal.Snapshot, bool, error)
	// Chunks returns the chunks that exist.
	Chunks(ctx context.Context, s content.SessionID, digests []events.Hash) (map[events.Hash][]byte, error)
}

// Reader reads sessions from their journals.
type Reader struct {
	Journal   journal.Journal
	Snapshots Snapshots   // nil: none; used only if Journal can read from a head
	Signed    bool        // only signed entries confirm a snapshot; Journal checks the signatures
	Logger    *zap.Logger // nil: silent; warns about each unusable snapshot
}

// Replica is a session, folded from its journal up to Head.
type Replica struct {
	State   *loop.State
	Head    journal.Head      // zero: the session has no journal
	Base    uint64            // the sequence of the snapshot that it started from; 0: none
	Encoder *snapshot.Encoder // encodes the state and knows the chunks of that snapshot; nil: none is known
	Parked  bool              // the last entry parks the session

	Restored bool // a restore of the deployment claimed the session last: calls may have ended after its backup was made
}

// errUnconfirmed is returned for a snapshot that the journal does not confirm.
var errUnconfirmed = errors.New("the journal does not confirm the snapshot")

// Read returns a session. It starts from the newest snapshot, if the entry that follows confirms it, and folds
// the entries from there on. Otherwise it folds the whole journal. Of an erased session, only the tombstone can be read.
func (r Reader) Read(ctx context.Context, id content.SessionID) (Replica, error) {
	if _, ok := r.Journal.(fromHead); ok && r.Snapshots != nil {
		from, err := r.resume(ctx, id)
		switch {
		case from.State != nil && err == nil:
			return from, nil
		case ctx.Err() != nil:
			return from, context.Cause(ctx)
		case err != nil:
			r.warn("snapshot cannot be used", id, err)
		}
	}
	from := Replica{State: loop.New(id)}
	err := r.Update(ctx, &from)
	if _, sealed := errors.AsType[*events.SealedError](err); sealed {
		if gone, deleted := r.tombstone(ctx, id); deleted {
			return gone, nil
		}
	}
	return from, err
}

// ReadTo returns a session as it was after an entry, or as it is now if it has no later one. A deleted session is
// deleted at every entry.
func (r Reader) ReadTo(ctx context.Context, id content.SessionID, seq uint64) (Replica, error) {
	if gone, deleted := r.tombstone(ctx, id); deleted {
		return gone, nil
	}
	records := r.Journal.Read(ctx, id, 0)
	if j, ok := r.Journal.(toEntry); ok {
		records = j.ReadTo(ctx, id, seq)
	}
	return FoldTo(id, records, seq)
}

// toEntry is a journal that checks what it reads as a whole, so it must know the last entry in advance.
type toEntry interface {
	ReadTo(ctx context.Context, s content.SessionID, seq uint64) iter.Seq2[journal.Record, error]
}

// FoldTo folds the records of a session up to an entry.
func FoldTo(id content.SessionID, records iter.Seq2[journal.Record, error], seq uint64) (Replica, error) {
	to := Replica{State: loop.New(id)}
	for rec, err := range records {
		if err == nil && rec.Seq > seq {
			break
		}
		if err := to.foldNext(rec, err); err != nil {
			return to, fmt.Errorf("read %s to %d: %w", id, seq, err)
		}
	}
	return to, nil
}

// tombstone returns a session that ends with its tombstone.
func (r Reader) tombstone(ctx context.Context, id content.SessionID) (gone Replica, deleted bool) {
	last, err := r.Journal.Last(ctx, id)
	if err == nil {
		_, deleted = events.DeletionOf(last.Entry)
	}
	if deleted {
		gone.State = loop.New(id)
		gone.fold(last)
	}
	return gone, deleted
}

// resume reads a session from its newest snapshot on. Without a snapshot it returns no state and no error; after an
// error, read the whole journal. It decodes a snapshot only after the journal has confirmed it: otherwise a process
// that can store snapshots could supply a state that cannot be folded.
func (r Reader) resume(ctx context.Context, id content.SessionID) (to Replica, err error) {
	snap, ok, err := r.Snapshots.Get(ctx, id)
	if err != nil || !ok {
		return to, err
	}
	to.Head = snap.Head
	for rec, err := range r.after(ctx, id, snap.Head) {
		if err == nil {
			err = rec.Err
		}
		if err == nil && to.State == nil {
			err = r.start(ctx, &to, id, snap, rec)
		}
		if err == nil {
			err = follows(to.State, to.Parked, rec.Entry)
		}
		if err != nil {
			return to, fmt.Errorf("read %s after the snapshot at %d: %w", id, snap.Seq, err)
		}
		to.fold(rec)
	}
	if to.State == nil {
		err = fmt.Errorf("read %s after the snapshot at %d: %w: no entry follows it", id, snap.Seq, errUnconfirmed)
	}
	return to, err
}

// start sets the state from a snapshot, if the next entry confirms it. If that entry is a tombstone, which may
// follow any entry, it sets no state.
func (r Reader) start(ctx context.Context, to *Replica, id content.SessionID, snap journal.Snapshot, next journal.Record) error {
	if _, deleted := events.DeletionOf(next.Entry); deleted {
		to.State = loop.New(id)
		return nil
	}
	if !confirms(next.Entry, snap) || r.Signed && next.Signature.IsZero() {
		return errUnconfirmed
	}
	index, err := snapshot.Open(snap.State)
	if err != nil {
		return err
	}
	chunks, err := r.Snapshots.Chunks(ctx, id, index.Chunks())
	if err != nil {
		return fmt.Errorf("%w: %w", snapshot.ErrUnusable, err)
	}
	to.State, to.Encoder, err = index.State(chunks)
	to.Base = snap.Seq
	return err
}

// confirms reports whether an entry has the digest of a snapshot of the state before it.
func confirms(e events.Entry, snap journal.Snapshot) bool {
	digest := events.HashOf(snap.State)
	return e.Seq == snap.Seq+1 && slices.ContainsFunc(e.Events, func(ev events.Event) bool {
		taken, ok := ev.(events.SnapshotTaken)
		return ok && taken.Digest == digest
	})
}

// Update folds the entries that follow the replica's head.
func (r Reader) Update(ctx context.Context, to *Replica) error {
	for rec, err := range r.after(ctx, to.State.Session, to.Head) {
		if err := to.foldNext(rec, err); err != nil {
			return fmt.Errorf("read %s after %d: %w", to.State.Session, to.Head.Seq, err)
		}
	}
	return nil
}

// foldNext folds the next record, unless reading it failed or it cannot follow.
func (to *Replica) foldNext(rec journal.Record, err error) error {
	if err = cmp.Or(err, rec.Err); err == nil {
		err = follows(to.State, to.Parked, rec.Entry)
	}
	if err == nil {
		to.fold(rec)
	}
	return err
}

func (to *Replica) fold(rec journal.Record) {
	to.State.Fold(rec.Entry)
	to.Head = rec.Head
	to.Parked = Parks(rec.Entry)
	if claim, ok := events.ClaimOf(rec.Entry); ok {
		to.Restored = claim.Restored != nil
	}
}

// Parks reports whether an entry parks its session. The session is at rest if that is its last entry.
func Parks(e events.Entry) bool {
	return slices.ContainsFunc(e.Events, func(ev events.Event) bool {
		_, ok := ev.(events.Parked)
		return ok
	})
}

// fromHead is a journal that can read from a head on, without the earlier entries. It checks that
// the next entry continues the head's chain.
type fromHead interface {
	ReadFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error]
}

func (r Reader) after(ctx context.Context, id content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	if j, ok := r.Journal.(fromHead); ok {
		return j.ReadFrom(ctx, id, head)
	}
	return r.Journal.Read(ctx, id, head.Seq)
}

func (r Reader) warn(message string, id content.SessionID, err error) {
	if r.Logger != nil {
		r.Logger.Warn(message, logfield.Session(id), zap.Error(err))
	}
}

package engine

import (
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

// Snapshots finds the newest snapshot of a session and reports whether there is one.
type Snapshots interface {
	// Get returns the newest snapshot, and false if there is none.
	Get(ctx context.Context, s content.SessionID) (journal.Snapshot, bool, error)
}

// Reader reads sessions from their journals.
type Reader struct {
	Journal   journal.Journal
	Snapshots Snapshots   // nil: none; used only if Journal can read from a head
	Logger    *zap.Logger // nil: silent; warns about each unusable snapshot
}

// Replica is a session, folded from its journal up to Head.
type Replica struct {
	State  *loop.State
	Head   journal.Head // zero: the session has no journal
	Base   uint64       // the sequence of the snapshot that it started from; 0: none
	Parked bool         // the last entry parks the session
}

// Read returns a session. It starts from the newest snapshot and folds the entries that
// follow; without a usable snapshot it folds the whole journal.
func (r Reader) Read(ctx context.Context, id content.SessionID) (Replica, error) {
	from, err := r.newest(ctx, id)
	if err != nil {
		r.warn("snapshot cannot be used", id, err)
	}
	if from.Head.Seq > 0 {
		err := r.Update(ctx, &from)
		if !errors.Is(err, journal.ErrDamaged) {
			return from, err
		}
		r.warn("snapshot does not match the journal", id, err)
	}
	from = Replica{State: loop.New(id)}
	err = r.Update(ctx, &from)
	return from, err
}

// newest decodes the session's newest snapshot. The zero Replica means that there is none.
func (r Reader) newest(ctx context.Context, id content.SessionID) (Replica, error) {
	if _, ok := r.Journal.(fromHead); !ok || r.Snapshots == nil {
		return Replica{}, nil
	}
	snap, ok, err := r.Snapshots.Get(ctx, id)
	if err != nil || !ok {
		return Replica{}, err
	}
	s, err := snapshot.Decode(snap.State)
	if err == nil && (s.Session != id || s.Seq != snap.Seq) {
		err = fmt.Errorf("it is of %s at %d", s.Session, s.Seq)
	}
	if err != nil {
		return Replica{}, fmt.Errorf("snapshot of %s at %d: %w", id, snap.Seq, err)
	}
	return Replica{State: s, Head: snap.Head, Base: snap.Seq}, nil
}

// Update folds the entries that follow the replica's head.
func (r Reader) Update(ctx context.Context, to *Replica) error {
	for rec, err := range r.after(ctx, to.State.Session, to.Head) {
		if err == nil {
			err = rec.Err
		}
		if err == nil {
			err = follows(to.State, to.Parked, rec.Entry)
		}
		if err != nil {
			return fmt.Errorf("read %s after %d: %w", to.State.Session, to.Head.Seq, err)
		}
		to.State.Fold(rec.Entry)
		to.Head = rec.Head
		to.Parked = Parks(rec.Entry)
	}
	return nil
}

// Parks reports whether an entry parks its session. If it is the last one, the session is at rest.
func Parks(e events.Entry) bool {
	return slices.ContainsFunc(e.Events, func(ev events.Event) bool {
		_, ok := ev.(events.Parked)
		return ok
	})
}

// fromHead is a journal that reads on from a head without the earlier entries, and checks that
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

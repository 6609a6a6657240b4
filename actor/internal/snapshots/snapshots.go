// Package snapshots takes snapshots of a session in the background.
//
// The one idea: the journal confirms a snapshot before it is kept. A goroutine encodes the state after an
// entry and stores its chunks. If it is done before the next entry, that entry records the digest
// (events.SnapshotTaken), so no extra append is needed. Only then does the snapshot replace the one before.
// So every kept snapshot is confirmed, and a crash between any two steps leaves the previous snapshot. No
// command waits for the store. A command waits for an encoding only in a session that never pauses.
//
// A [Taker] belongs to its driver's goroutine.
package snapshots

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// Taker takes the snapshots of one session.
type Taker struct {
	store *jetstream.Snapshots
	every uint64 // entries between two snapshots
	log   *zap.Logger

	taken   uint64 // the last entry before which a snapshot was recorded or given up
	now     *attempt
	missed  uint64            // attempts since then that were not done before the next entry
	again   uint64            // the entry after which the next attempt begins
	encoder *snapshot.Encoder // belongs to the current attempt until that is done
	stored  []events.Hash     // the chunks of the stored snapshot
	storing chan struct{}     // closed when the last snapshot is stored; nil: none was taken
	resting bool              // the session parks: only a claim may follow
}

// attempt is a snapshot of the state after one entry.
type attempt struct {
	head  journal.Head
	done  chan struct{} // closed when the rest is set
	index []byte
	err   error
}

// New returns the taker of a session, which takes a snapshot each time that every entries were appended.
func New(store *jetstream.Snapshots, every uint64, log *zap.Logger) *Taker {
	return &Taker{store: store, every: every, log: log, encoder: new(snapshot.Encoder)}
}

// Adopt continues from a session that was just read.
func (t *Taker) Adopt(r engine.Replica) {
	t.Close()
	t.taken, t.now, t.encoder, t.resting = r.Base, nil, r.Encoder, false
	if t.encoder == nil {
		t.encoder = new(snapshot.Encoder)
	}
	t.stored = t.encoder.Chunks()
}

const (
	// patience is how many attempts in a row may come too late. After that, a session that never pauses waits
	// for one.
	patience = 6
	// pause is how long it waits. An encoding takes less.
	pause = 2 * time.Millisecond
	// settling is how long a session that parks waits for the store.
	settling = 500 * time.Millisecond
)

// Offer returns what the entry after head should record, or nil.
func (t *Taker) Offer(head journal.Head) *events.SnapshotTaken {
	a := t.now
	if a == nil || a.head != head {
		return nil
	}
	limit := time.Duration(0)
	if t.missed >= patience {
		limit = pause
	}
	if !within(a.done, limit) || a.err != nil {
		return nil
	}
	return &events.SnapshotTaken{Format: snapshot.Version, Digest: events.HashOf(a.index)}
}

// Appended is called after each entry. recorded says that the entry recorded what Offer returned. Appended
// then stores the confirmed snapshot. It begins the next snapshot if one is due.
func (t *Taker) Appended(ctx context.Context, s *loop.State, head journal.Head, recorded bool) {
	a := t.now
	switch {
	case recorded:
		t.now, t.taken, t.missed, t.again = nil, head.Seq, 0, 0
		t.keep(ctx, s.Session, a)
	case a == nil:
	case !within(a.done, 0):
		return
	case a.err != nil:
		t.log.Warn("snapshot not taken", zap.Error(a.err))
		t.now, t.taken, t.missed, t.again = nil, head.Seq, 0, 0
	default: // it came too late; its chunks are stored, so the next attempt is faster
		t.now, t.again = nil, head.Seq+1<<t.missed-1
		t.missed = min(t.missed+1, patience)
	}
	if head.Seq >= t.again {
		t.begin(ctx, s, head)
	}
}

// begin starts to encode the state if a snapshot is due.
func (t *Taker) begin(ctx context.Context, s *loop.State, head journal.Head) {
	if t.resting || t.now != nil || head.Seq-t.taken < t.every || !within(t.storing, 0) {
		return
	}
	a, state := &attempt{head: head, done: make(chan struct{})}, s.Fork()
	t.now = a
	go func() { // Close waits for it
		defer close(a.done)
		defer contain(&a.err)
		a.index, a.err = t.encoder.Encode(&state, func(digest events.Hash, chunk []byte) error {
			return t.store.Keep(ctx, state.Session, digest, chunk)
		})
	}()
}

// keep stores a confirmed snapshot, and then removes the chunks that only the previous one used.
func (t *Taker) keep(ctx context.Context, s content.SessionID, a *attempt) {
	before, now, done := t.stored, t.encoder.Chunks(), make(chan struct{})
	t.stored, t.storing = now, done
	go func() { // Close waits for it
		defer close(done)
		err := t.store.Put(ctx, s, journal.Snapshot{Head: a.head, State: a.index})
		for _, digest := range before {
			if _, still := slices.BinarySearchFunc(now, digest, events.Hash.Compare); err == nil && !still {
				err = t.store.Drop(ctx, s, digest)
			}
		}
		if err != nil {
			t.log.Warn("snapshot not stored", zap.Error(err))
		}
	}()
}

// contain turns a panic into an error: only the snapshot is lost.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Rest says that the next entry parks the session, so no later snapshot is taken. It is called with false if
// that entry was not written.
func (t *Taker) Rest(parks bool) { t.resting = parks }

// Settle takes a snapshot if one is due, and waits a little until it is done or stored. A session that parks
// calls it before its last entry, which then confirms the snapshot, and again after it.
func (t *Taker) Settle(ctx context.Context, s *loop.State, head journal.Head) {
	if a := t.now; a != nil && a.head != head && within(a.done, settling) {
		t.now = nil
	}
	t.begin(ctx, s, head)
	if t.now != nil {
		within(t.now.done, settling)
	}
	within(t.storing, settling)
}

// Close waits for what was started. Its context must have ended.
func (t *Taker) Close() {
	if t.now != nil {
		<-t.now.done
	}
	if t.storing != nil {
		<-t.storing
	}
}

// within waits up to limit for done, and reports whether done is closed. A nil channel counts as closed.
func within(done <-chan struct{}, limit time.Duration) bool {
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	default:
	}
	if limit == 0 {
		return false
	}
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

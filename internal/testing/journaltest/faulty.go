package journaltest

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Fault is a failure of an append.
type Fault int

// The faults. The zero value is none.
const (
	None     Fault = iota
	Conflict       // ErrConflict, although the head is current; nothing is written
	LostAck        // ErrUnknown, and the entry is written
	LostSend       // ErrUnknown, and the entry is never written
	Late           // ErrUnknown, and the entry is written just before the session's next append, or at Land
)

// String names the fault.
func (f Fault) String() string {
	switch f {
	case None:
		return "none"
	case Conflict:
		return "conflict"
	case LostAck:
		return "lost ack"
	case LostSend:
		return "lost send"
	case Late:
		return "late"
	}
	return fmt.Sprintf("fault %d", int(f))
}

// Faulty is a journal whose appends fail as a predicate decides. Reads always work. It is safe for
// concurrent use if the predicate is.
type Faulty struct {
	inner journal.Journal
	fault func(journal.Head, events.Entry) Fault

	mu      sync.Mutex
	late    map[content.SessionID][]lateWrite
	counted map[Fault]int
}

type lateWrite struct {
	head  journal.Head
	entry events.Entry
}

var _ journal.Journal = (*Faulty)(nil)

// NewFaulty wraps inner. It calls fault before each append, with the arguments of Append.
func NewFaulty(inner journal.Journal, fault func(journal.Head, events.Entry) Fault) *Faulty {
	return &Faulty{inner: inner, fault: fault, late: map[content.SessionID][]lateWrite{}, counted: map[Fault]int{}}
}

// Append appends to the wrapped journal, or fails as the predicate decides.
func (f *Faulty) Append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	f.land(ctx, e.Session)
	fault := f.fault(head, e)
	f.count(fault)
	switch fault {
	case None:
		return f.inner.Append(ctx, head, e)
	case Conflict:
		return journal.Head{}, fmt.Errorf("append %s after %d: %w: injected", e.Session, head.Seq, journal.ErrConflict)
	case LostAck:
		if _, err := f.inner.Append(ctx, head, e); err != nil {
			return journal.Head{}, err
		}
	case LostSend:
	case Late:
		f.mu.Lock()
		f.late[e.Session] = append(f.late[e.Session], lateWrite{head, e})
		f.mu.Unlock()
	}
	return journal.Head{}, fmt.Errorf("append %s after %d: %w: injected, %s", e.Session, head.Seq, journal.ErrUnknown, fault)
}

// Land appends the late entries of all sessions. Those that conflict are lost.
func (f *Faulty) Land(ctx context.Context) {
	f.mu.Lock()
	sessions := make([]content.SessionID, 0, len(f.late))
	for s := range f.late {
		sessions = append(sessions, s)
	}
	f.mu.Unlock()
	for _, s := range sessions {
		f.land(ctx, s)
	}
}

func (f *Faulty) land(ctx context.Context, s content.SessionID) {
	f.mu.Lock()
	writes := f.late[s]
	delete(f.late, s)
	f.mu.Unlock()
	for _, w := range writes {
		_, _ = f.inner.Append(ctx, w.head, w.entry) // its caller has returned
	}
}

func (f *Faulty) count(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted[fault]++
}

// Count returns how many appends had the fault, so that a test can verify its premise.
func (f *Faulty) Count(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counted[fault]
}

// Read reads from the wrapped journal.
func (f *Faulty) Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return f.inner.Read(ctx, s, after)
}

// Last returns the wrapped journal's last entry.
func (f *Faulty) Last(ctx context.Context, s content.SessionID) (journal.Record, error) {
	return f.inner.Last(ctx, s)
}

// Follow follows the wrapped journal.
func (f *Faulty) Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return f.inner.Follow(ctx, s, after)
}

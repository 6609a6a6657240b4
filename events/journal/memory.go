package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Memory keeps journals in memory, for tests and for agents whose sessions need not outlive the process.
// It stores bytes and decodes them for each reader, so writers and readers share nothing. Its Append
// never returns ErrUnknown.
type Memory struct {
	mu       sync.Mutex
	sessions map[content.SessionID]*memoryLog
	guard    uint64 // guard of the last entry written in any session
}

// memoryLog is one session's journal. Guarded by Memory.mu.
type memoryLog struct {
	entries []memoryEntry
	grown   chan struct{} // closed and replaced with every append
}

type memoryEntry struct {
	head    Head
	payload []byte
	stored  time.Time
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{sessions: map[content.SessionID]*memoryLog{}}
}

// Append writes e after head.
func (m *Memory) Append(ctx context.Context, head Head, e events.Entry) (Head, error) {
	if ctx.Err() != nil {
		return Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, context.Cause(ctx))
	}
	if !content.IsToken(string(e.Session)) {
		return Head{}, fmt.Errorf("append to %q: %w", e.Session, content.ErrBadID)
	}
	e, payload, next, err := Link(head, e)
	if err != nil {
		return Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.log(e.Session)
	if end := log.end(); end != head {
		return Head{}, fmt.Errorf("append %s after %d: %w: the journal ends at %d", e.Session, head.Seq, ErrConflict, end.Seq)
	}
	m.guard++
	next.Guard = m.guard
	log.entries = append(log.entries, memoryEntry{head: next, payload: payload, stored: time.Now()})
	close(log.grown)
	log.grown = make(chan struct{})
	return next, nil
}

// log returns the session's journal, or creates one. The lock is held.
func (m *Memory) log(s content.SessionID) *memoryLog {
	log, ok := m.sessions[s]
	if !ok {
		log = &memoryLog{grown: make(chan struct{})}
		m.sessions[s] = log
	}
	return log
}

func (l *memoryLog) end() Head {
	if len(l.entries) == 0 {
		return Head{}
	}
	return l.entries[len(l.entries)-1].head
}

// Read yields the entries after a sequence number.
func (m *Memory) Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		entries, _ := m.since(s, after)
		for _, e := range entries {
			if ctx.Err() != nil {
				yield(Record{}, fmt.Errorf("read %s after %d: %w", s, e.head.Seq-1, context.Cause(ctx)))
				return
			}
			rec, err := e.record(s)
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// since returns the entries after a sequence number, and a channel that is closed when there are more.
// Entries never change, so callers may share them.
func (m *Memory) since(s content.SessionID, after uint64) ([]memoryEntry, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.log(s)
	n := uint64(len(log.entries))
	return log.entries[min(after, n):n:n], log.grown
}

func (e memoryEntry) record(s content.SessionID) (Record, error) {
	rec := Record{Head: e.head, Payload: e.payload, Stored: e.stored}
	var err error
	rec.Entry, err = events.Decode(e.payload)
	if errors.Is(err, events.ErrUnknownKind) {
		rec.Err, err = err, nil
	}
	if err != nil {
		return rec, fmt.Errorf("%w: %s, entry %d: %w", ErrDamaged, s, e.head.Seq, err)
	}
	return rec, nil
}

// Last returns the last entry of a session.
func (m *Memory) Last(ctx context.Context, s content.SessionID) (Record, error) {
	if ctx.Err() != nil {
		return Record{}, fmt.Errorf("last entry of %s: %w", s, context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	log, ok := m.sessions[s]
	if !ok || len(log.entries) == 0 {
		return Record{}, fmt.Errorf("last entry of %s: %w", s, ErrNotFound)
	}
	return log.entries[len(log.entries)-1].record(s)
}

// Follow yields the entries after a sequence number, then new ones as they are written, until ctx ends.
func (m *Memory) Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			entries, grown := m.since(s, after)
			for _, e := range entries {
				if ctx.Err() != nil {
					return
				}
				rec, err := e.record(s)
				if !yield(rec, err) || err != nil {
					return
				}
				after = e.head.Seq
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}

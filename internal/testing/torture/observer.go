package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
)

// observer follows all sessions at once and resumes from its cursor.
type observer struct {
	log *findings

	mu     sync.Mutex
	cursor jetstream.Cursor
	seen   map[content.SessionID]*sightings
}

func newObserver(f *findings) *observer {
	return &observer{log: f, seen: make(map[content.SessionID]*sightings)}
}

// watch observes until ctx ends.
func (o *observer) watch(ctx context.Context, j *jetstream.Journal) {
	for {
		for rec, err := range j.Observe(ctx, jetstream.AllSessions, o.from()) {
			if err != nil {
				o.log.note("observer: %v", err)
				break
			}
			o.see(rec)
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return
		}
	}
}

func (o *observer) from() jetstream.Cursor {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cursor
}

func (o *observer) see(rec journal.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := rec.Entry.Session
	if o.seen[s] == nil {
		o.seen[s] = &sightings{}
	}
	if wrong := o.seen[s].add(rec); wrong != "" {
		o.log.violation(s, FollowExact, "for an observer of all sessions, "+wrong)
	}
	o.cursor = jetstream.CursorAt(rec)
}

// of returns what it saw of a session.
func (o *observer) of(s content.SessionID) *sightings {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[s] == nil {
		o.seen[s] = &sightings{}
	}
	return o.seen[s]
}

// writerSession is the journal that the writers share. No driver owns it.
const writerSession content.SessionID = "writers"

// writerPause is the pause between two appends of a writer. With a third of it, the writers made most messages of a run.
const writerPause = 100 * time.Millisecond

// writer appends to a journal in competition with another writer, and records what was acknowledged.
// It tests the guarantees on which a driver's appends depend.
type writer struct {
	name string
	log  *findings

	mu    sync.Mutex
	acked map[uint64]events.Hash
}

func newWriter(name string, f *findings) *writer {
	return &writer{name: name, log: f, acked: make(map[uint64]events.Hash)}
}

// write appends until ctx ends. After a conflict, and after an append with an unknown
// outcome, it reads where the journal ends.
func (w *writer) write(ctx context.Context, j *jetstream.Journal) {
	var head journal.Head
	for n := 1; pause.For(ctx, writerPause); n++ {
		e := events.Entry{
			Session: writerSession, Cause: fmt.Sprintf("%s/%d", w.name, n), At: content.TimeOf(time.Now()), Epoch: 1,
			Events: []events.Event{events.DriverClaimed{Epoch: 1, Node: w.name}, events.Parked{}}, // nodes wake what is not parked
		}
		next, err := j.Append(ctx, head, e)
		if err == nil {
			w.promised(next)
			head = next
			continue
		}
		if !errors.Is(err, journal.ErrConflict) {
			w.log.note("%s: %v", w.name, err)
		}
		last, err := j.Last(ctx, writerSession)
		switch {
		case err == nil:
			head = last.Head
		case errors.Is(err, journal.ErrNotFound):
			head = journal.Head{}
		default:
			w.log.note("%s: %v", w.name, err)
		}
	}
}

func (w *writer) promised(h journal.Head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[h.Seq] = h.Hash
}

// missing compares what was acknowledged with what is in the stream.
func (w *writer) missing(stream []events.Hash) (wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq, hash := range w.acked {
		if seq > uint64(len(stream)) || stream[seq-1] != hash {
			wrong = append(wrong, fmt.Sprintf("entry %d of %s was acknowledged and is not in the stream", seq, w.name))
		}
	}
	return wrong
}

package journaltest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
)

func followNewEntries(t *testing.T, j *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	heads := Fill(t, j, j.id("s"), journal.Head{}, 4)
	all, some := follow(ctx, j, j.id("s"), 0), follow(ctx, j, j.id("s"), 3)
	checkRecords(t, all.next(t, 4), heads)
	checkRecords(t, some.next(t, 1), heads[3:])
	for range 3 {
		end := len(heads) - 1
		heads = append(heads, Fill(t, j, j.id("s"), heads[end], 1)[1])
		Fill(t, j, j.id("other"), lastHead(t, j, j.id("other")), 1)
		checkRecords(t, all.next(t, 1), heads[end:])
		checkRecords(t, some.next(t, 1), heads[end:])
	}
	cancel()
	all.end(t)
	some.end(t)
}

func followFirstEntry(t *testing.T, j *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	first, later := follow(ctx, j, j.id("s"), 0), follow(ctx, j, j.id("s"), 2)
	heads := Fill(t, j, j.id("s"), journal.Head{}, 3)
	checkRecords(t, first.next(t, 3), heads)
	checkRecords(t, later.next(t, 1), heads[2:])
	cancel()
	first.end(t)
	later.end(t)
}

// followOnce makes writers compete for one session while followers start at different times and
// positions.
func followOnce(t *testing.T, j *bench) {
	const writers, entries = 4, 120
	ctx, cancel := context.WithCancel(t.Context())
	var followers []*follower
	var wg sync.WaitGroup
	for range 3 {
		followers = append(followers, follow(ctx, j, j.id("s"), 0))
	}
	for range writers {
		wg.Go(func() { appendUntil(t, j, entries) })
	}
	followers = append(followers, follow(ctx, j, j.id("s"), 0))
	var before journal.Head
	for range entries {
		var same journal.Record
		for i, f := range followers {
			rec := f.next(t, 1)[0]
			if i == 0 {
				same = rec
				checkRecord(t, rec, before, rec.Head)
			}
			if rec.Head != same.Head {
				t.Fatalf("follower %d got %+v, follower 0 %+v", i, rec.Head, same.Head)
			}
		}
		before = same.Head
	}
	wg.Wait()
	if end := lastHead(t, j, j.id("s")); end != before {
		t.Errorf("journal ends at %+v, the followers at %+v", end, before)
	}
	cancel()
	for _, f := range followers {
		f.end(t)
	}
}

// appendUntil appends until the journal is long enough.
func appendUntil(t *testing.T, j *bench, entries uint64) {
	for {
		var head journal.Head
		last, err := j.Last(t.Context(), j.id("s"))
		if err == nil {
			head = last.Head
		}
		if head.Seq >= entries {
			return
		}
		if _, err := j.Append(t.Context(), head, Entry(j.id("s"), int(head.Seq))); err != nil && !errors.Is(err, journal.ErrConflict) {
			t.Errorf("Append after %d: %v", head.Seq, err)
			return
		}
	}
}

func followEnds(t *testing.T, j *bench) {
	Fill(t, j, j.id("s"), journal.Head{}, 2)
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(ctx, j, j.id("s"), 0)
	f.next(t, 2)
	cancel()
	f.end(t)
	for rec, err := range j.Follow(t.Context(), j.id("s"), 0) {
		if err != nil || rec.Seq != 1 {
			t.Errorf("Follow begins with %d, %v, want entry 1", rec.Seq, err)
		}
		break // stopping early must not hang
	}
}

func lastHead(t *testing.T, j journal.Journal, s content.SessionID) journal.Head {
	t.Helper()
	last, err := j.Last(t.Context(), s)
	if errors.Is(err, journal.ErrNotFound) {
		return journal.Head{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return last.Head
}

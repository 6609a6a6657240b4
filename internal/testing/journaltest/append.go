package journaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

func emptyJournal(t *testing.T, j *bench) {
	if got := collect(t, j.Read(t.Context(), j.id("s"), 0)); len(got) != 0 {
		t.Errorf("Read of an empty session yields %d records", len(got))
	}
	if _, err := j.Last(t.Context(), j.id("s")); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Last = %v, want ErrNotFound", err)
	}
}

func appendSetsPosition(t *testing.T, j *bench) {
	e := Entry(j.id("s"), 1)
	e.Version, e.Seq, e.Prev = 77, 77, events.HashOf([]byte("nonsense")) // Append sets these
	head := mustAppend(t, j, journal.Head{}, e)
	if head.Seq != 1 || head.Hash.IsZero() || head.Guard == 0 {
		t.Fatalf("head of the first entry = %+v", head)
	}
	last, err := j.Last(t.Context(), j.id("s"))
	if err != nil {
		t.Fatal(err)
	}
	checkRecord(t, last, journal.Head{}, head)
	checkBytes(t, last, journal.Head{}, e)
	want := events.Version
	if last.Entry.Sealing != nil {
		want = events.VersionSealed
	}
	if last.Entry.Version != want {
		t.Errorf("version = %d, want %d", last.Entry.Version, want)
	}
}

func chain(t *testing.T, j *bench) {
	heads := Fill(t, j, j.id("s"), journal.Head{}, 20)
	checkRecords(t, collect(t, j.Read(t.Context(), j.id("s"), 0)), heads)
	for i, rec := range collect(t, j.Read(t.Context(), j.id("s"), 0)) {
		checkBytes(t, rec, heads[i], Entry(j.id("s"), i+1))
	}
	last, err := j.Last(t.Context(), j.id("s"))
	if err != nil {
		t.Fatal(err)
	}
	checkRecord(t, last, heads[19], heads[20])
}

func storeClock(f Features) func(t *testing.T, j *bench) {
	return func(t *testing.T, j *bench) {
		Fill(t, j, j.id("s"), journal.Head{}, 3)
		var before time.Time
		for _, rec := range collect(t, j.Read(t.Context(), j.id("s"), 0)) {
			switch {
			case f.NoClock != rec.Stored.IsZero():
				t.Errorf("record %d: stored at %v; the store has no clock: %v", rec.Seq, rec.Stored, f.NoClock)
			case rec.Stored.Before(before):
				t.Errorf("record %d: stored at %v, its predecessor at %v", rec.Seq, rec.Stored, before)
			}
			before = rec.Stored
		}
	}
}

func otherHeadsConflict(t *testing.T, j *bench) {
	heads := Fill(t, j, j.id("s"), journal.Head{}, 3)
	ahead := heads[3]
	ahead.Seq, ahead.Guard = ahead.Seq+1, ahead.Guard+1
	for _, head := range []journal.Head{heads[0], heads[1], heads[2], ahead} {
		next, err := j.Append(t.Context(), head, Entry(j.id("s"), 99))
		if !errors.Is(err, journal.ErrConflict) || errors.Is(err, journal.ErrUnknown) {
			t.Errorf("Append after %d of 3 = %v, want ErrConflict", head.Seq, err)
		}
		if next != (journal.Head{}) {
			t.Errorf("Append after %d of 3 returns the head %+v and an error", head.Seq, next)
		}
	}
	if _, err := j.Append(t.Context(), heads[3], Entry(j.id("other"), 1)); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Append after another session's head = %v, want ErrConflict", err)
	}
	heads = append(heads, Fill(t, j, j.id("s"), heads[3], 1)[1])
	records := collect(t, j.Read(t.Context(), j.id("s"), 0))
	if len(records) != 4 {
		t.Fatalf("%d records after four appends and some conflicts, want 4", len(records))
	}
	checkRecord(t, records[3], heads[3], heads[4])
}

func oneWriterWins(t *testing.T, j *bench) {
	const writers, rounds = 8, 10
	head := mustAppend(t, j, journal.Head{}, Entry(j.id("s"), 0))
	for round := range rounds {
		var wg sync.WaitGroup
		results := make([]error, writers)
		heads := make([]journal.Head, writers)
		for w := range writers {
			wg.Go(func() {
				heads[w], results[w] = j.Append(t.Context(), head, Entry(j.id("s"), 100*round+w))
			})
		}
		wg.Wait()
		var won []journal.Head
		for w, err := range results {
			switch {
			case err == nil:
				won = append(won, heads[w])
			case !errors.Is(err, journal.ErrConflict):
				t.Fatalf("round %d, writer %d: %v, want ErrConflict", round, w, err)
			}
		}
		if len(won) != 1 {
			t.Fatalf("round %d: %d of %d writers appended after the same entry", round, len(won), writers)
		}
		head = won[0]
	}
	last, err := j.Last(t.Context(), j.id("s"))
	if err != nil || last.Head != head {
		t.Fatalf("Last = %+v, %v, want %+v", last.Head, err, head)
	}
}

func badSessions(t *testing.T, j *bench) {
	good := Fill(t, j, j.id("s"), journal.Head{}, 1)
	for _, s := range []content.SessionID{"", ".", "*", ">", "a.b", "a b", "s.*", content.SessionID(strings.Repeat("x", 129))} {
		_, err := j.Append(t.Context(), journal.Head{}, Entry(s, 1))
		if !errors.Is(err, content.ErrBadID) {
			t.Errorf("Append to session %q = %v, want ErrBadID", s, err)
		}
		if got := collect(t, j.Read(t.Context(), s, 0)); len(got) != 0 {
			t.Errorf("Read of session %q yields %d records", s, len(got))
		}
		if _, err := j.Last(t.Context(), s); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("Last of session %q = %v, want ErrNotFound", s, err)
		}
	}
	checkRecords(t, collect(t, j.Read(t.Context(), j.id("s"), 0)), good)
}

func endedContext(t *testing.T, j *bench) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("canceled by the test")
	cancel(cause)
	_, err := j.Append(ctx, journal.Head{}, Entry(j.id("s"), 1))
	if !errors.Is(err, cause) || errors.Is(err, journal.ErrUnknown) || errors.Is(err, journal.ErrConflict) {
		t.Errorf("Append with an ended context = %v, want only its cause", err)
	}
	if _, err := j.Last(t.Context(), j.id("s")); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("Last = %v, want ErrNotFound", err)
	}
}

func separateSessions(t *testing.T, j *bench) {
	const sessions, entries = 30, 5
	heads := map[content.SessionID][]journal.Head{}
	for range entries {
		for i := range sessions {
			s := j.id(fmt.Sprintf("s-%d", i))
			if heads[s] == nil {
				heads[s] = []journal.Head{{}}
			}
			end := heads[s][len(heads[s])-1]
			heads[s] = append(heads[s], mustAppend(t, j, end, Entry(s, int(end.Seq))))
		}
	}
	for s, want := range heads {
		records := collect(t, j.Read(t.Context(), s, 0))
		checkRecords(t, records, want)
		for _, rec := range records {
			if rec.Entry.Session != s {
				t.Fatalf("entry of %s in the journal of %s", rec.Entry.Session, s)
			}
		}
	}
}

package journal_test

import (
	"errors"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, journaltest.Features{}, func(*testing.T) journal.Journal { return journal.NewMemory() })
}

func TestMemoryCopiesEntries(t *testing.T) {
	t.Parallel()
	j := journal.NewMemory()
	e := journaltest.Entry("s", 1)
	head, err := j.Append(t.Context(), journal.Head{}, e)
	if err != nil {
		t.Fatal(err)
	}
	e.Cursors[0].Seq = 99
	last, err := j.Last(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if got := last.Entry.Cursors[0].Seq; got != 1 {
		t.Errorf("cursor = %d after the writer changed its own, want 1", got)
	}
	if events.HashOf(last.Payload) != head.Hash {
		t.Error("bytes changed after they were written")
	}
}

func TestSealLinksToThePredecessor(t *testing.T) {
	t.Parallel()
	first, payload, head, err := journal.Link(journal.Head{}, journaltest.Entry("s", 1))
	if err != nil {
		t.Fatal(err)
	}
	if first.Seq != 1 || !first.Prev.IsZero() || first.Version != events.Version {
		t.Errorf("first entry: seq %d, prev %s, version %d", first.Seq, first.Prev, first.Version)
	}
	if head.Seq != 1 || head.Hash != events.HashOf(payload) || head.Guard != 0 {
		t.Errorf("head = %+v", head)
	}
	second, _, _, err := journal.Link(head, journaltest.Entry("s", 2))
	if err != nil {
		t.Fatal(err)
	}
	if second.Seq != 2 || second.Prev != head.Hash {
		t.Errorf("second entry: seq %d, prev %s, want 2 after %s", second.Seq, second.Prev, head.Hash)
	}
}

func FuzzMemoryAgreesWithAList(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, steps []byte) {
		j := journal.NewMemory()
		heads := []journal.Head{{}}
		for i, step := range steps[:min(len(steps), 64)] {
			at := int(step) % len(heads)
			next, err := j.Append(t.Context(), heads[at], journaltest.Entry("s", i))
			if atEnd := at == len(heads)-1; atEnd != (err == nil) {
				t.Fatalf("step %d: Append after %d of %d = %v", i, at, len(heads)-1, err)
			}
			if err == nil {
				heads = append(heads, next)
			} else if !errors.Is(err, journal.ErrConflict) {
				t.Fatal(err)
			}
		}
		n := 0
		for rec, err := range j.Read(t.Context(), "s", 0) {
			if n++; err != nil || rec.Head != heads[n] {
				t.Fatalf("record %d = %+v, %v, want %+v", n, rec.Head, err, heads[n])
			}
		}
		if n != len(heads)-1 {
			t.Fatalf("%d records, want %d", n, len(heads)-1)
		}
	})
}

package journaltest

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

func readAfter(t *testing.T, j *bench) {
	const entries = 1100 // more than implementations read at once
	heads := Fill(t, j, j.id("s"), journal.Head{}, entries)
	for _, after := range []uint64{0, 1, 2, 511, 512, 513, 1098, 1099} {
		checkRecords(t, collect(t, j.Read(t.Context(), j.id("s"), after)), heads[after:])
	}
	for _, after := range []uint64{entries, entries + 1, 1 << 40} {
		if got := collect(t, j.Read(t.Context(), j.id("s"), after)); len(got) != 0 {
			t.Errorf("Read after %d of %d yields %d records", after, entries, len(got))
		}
	}
}

func readStops(t *testing.T, j *bench) {
	heads := Fill(t, j, j.id("s"), journal.Head{}, 5)
	for stop := 1; stop <= 5; stop++ {
		var got []journal.Record
		for rec, err := range j.Read(t.Context(), j.id("s"), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, rec); len(got) == stop {
				break
			}
		}
		checkRecords(t, got, heads[:stop+1])
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("canceled by the test")
	cancel(cause)
	var ended error
	for _, err := range j.Read(ctx, j.id("s"), 0) {
		ended = err
	}
	if !errors.Is(ended, cause) {
		t.Errorf("Read with an ended context ends with %v, want its cause", ended)
	}
}

// large is an entry with two megabytes of text that does not compress well.
func large(s content.SessionID) events.Entry {
	noise := make([]byte, 3<<19)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise) // never fails
	text := base64.StdEncoding.EncodeToString(noise)
	e := Entry(s, 1)
	e.Events = append(e.Events, events.InputQueued{Items: []content.Item{content.UserText(text)}, Origin: events.FromHost})
	return e
}

func largeEntries(t *testing.T, j *bench) {
	heads := Fill(t, j, j.id("s"), journal.Head{}, 1)
	heads = append(heads, mustAppend(t, j, heads[1], large(j.id("s"))))
	heads = append(heads, Fill(t, j, j.id("s"), heads[2], 1)[1])
	other := mustAppend(t, j, journal.Head{}, large(j.id("other")))

	records := collect(t, j.Read(t.Context(), j.id("s"), 0))
	checkRecords(t, records, heads)
	checkBytes(t, records[1], heads[1], large(j.id("s")))
	last, err := j.Last(t.Context(), j.id("other"))
	if err != nil {
		t.Fatal(err)
	}
	checkRecord(t, last, journal.Head{}, other)

	ctx, cancel := context.WithCancel(t.Context())
	f := follow(ctx, j, j.id("s"), 0)
	checkRecords(t, f.next(t, 3), heads)
	heads = append(heads, mustAppend(t, j, heads[3], large(j.id("s"))))
	checkRecords(t, f.next(t, 1), heads[3:])
	cancel()
	f.end(t)
}

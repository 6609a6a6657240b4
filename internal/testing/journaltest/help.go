package journaltest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
)

// Entry returns the n-th of a series of different entries, ready for Append. It sets every
// field that a writer sets.
func Entry(s content.SessionID, n int) events.Entry {
	return events.Entry{
		Session: s,
		Cause:   fmt.Sprintf("command-%d", n),
		At:      content.Time(1_700_000_000_000_000_000 + int64(n)),
		Epoch:   1 + uint64(n/10),
		Cursors: []events.Cursor{{Lane: events.LaneAsk, Seq: uint64(n)}},
		Events: []events.Event{
			events.InputQueued{Items: []content.Item{content.UserText(fmt.Sprintf("input %d", n))}, Origin: events.FromHost},
			events.Warning{Code: "test", Message: fmt.Sprintf("entry %d", n)},
		},
	}
}

// Fill appends n entries after head and returns all heads, the given one first.
func Fill(t *testing.T, j journal.Journal, s content.SessionID, head journal.Head, n int) []journal.Head {
	t.Helper()
	heads := []journal.Head{head}
	for range n {
		heads = append(heads, mustAppend(t, j, heads[len(heads)-1], Entry(s, len(heads))))
	}
	return heads
}

func mustAppend(t *testing.T, j journal.Journal, head journal.Head, e events.Entry) journal.Head {
	t.Helper()
	next, err := j.Append(t.Context(), head, e)
	if err != nil {
		t.Fatalf("Append to %s after %d: %v", e.Session, head.Seq, err)
	}
	return next
}

// collect returns the records of a sequence, which must end without an error.
func collect(t *testing.T, records iter.Seq2[journal.Record, error]) []journal.Record {
	t.Helper()
	var out []journal.Record
	for rec, err := range records {
		if err != nil {
			t.Fatalf("after %d records: %v", len(out), err)
		}
		out = append(out, rec)
	}
	return out
}

// checkRecords checks that records are the entries of all heads except the first, each complete and
// equal to its bytes.
func checkRecords(t *testing.T, records []journal.Record, heads []journal.Head) {
	t.Helper()
	if len(records) != len(heads)-1 {
		t.Fatalf("%d records after %d, want %d", len(records), heads[0].Seq, len(heads)-1)
	}
	for i, rec := range records {
		checkRecord(t, rec, heads[i], heads[i+1])
	}
}

func checkRecord(t *testing.T, rec journal.Record, before, head journal.Head) {
	t.Helper()
	if rec.Head != head {
		t.Fatalf("head of the record = %+v, Append returned %+v", rec.Head, head)
	}
	if rec.Err != nil {
		t.Fatalf("record %d: Err = %v", rec.Seq, rec.Err)
	}
	if got := events.HashOf(rec.Payload); got != head.Hash {
		t.Fatalf("record %d: hash of its bytes = %s, want %s", rec.Seq, got, head.Hash)
	}
	if rec.Entry.Seq != before.Seq+1 || rec.Entry.Prev != before.Hash {
		t.Fatalf("entry %d follows %s, want %d after %s", rec.Entry.Seq, rec.Entry.Prev, before.Seq+1, before.Hash)
	}
	var key *seal.Key
	if s := rec.Entry.Sealing; s != nil {
		key = s.Key
	}
	decoded, err := events.Open(rec.Payload, key)
	if err != nil {
		t.Fatalf("record %d: %v", rec.Seq, err)
	}
	if !reflect.DeepEqual(decoded, rec.Entry) {
		t.Fatalf("record %d: entry differs from its bytes (-bytes +entry):\n%s", rec.Seq, cmp.Diff(decoded, rec.Entry))
	}
}

// checkBytes checks that a record holds exactly what Link returns for an entry. If it is sealed, that depends on a
// nonce that the journal chose.
func checkBytes(t *testing.T, rec journal.Record, before journal.Head, e events.Entry) {
	t.Helper()
	e.Sealing = rec.Entry.Sealing
	_, payload, _, err := journal.Link(before, e)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rec.Payload, payload) {
		t.Fatalf("record %d: %d bytes, want the %d of the entry", rec.Seq, len(rec.Payload), len(payload))
	}
}

// patience bounds the wait for followers.
const patience = time.Minute

// follower follows a session in its own goroutine.
type follower struct {
	records chan journal.Record
	ended   chan error // the error with which the sequence ended
}

func follow(ctx context.Context, j journal.Journal, s content.SessionID, after uint64) *follower {
	f := &follower{records: make(chan journal.Record), ended: make(chan error, 1)}
	go func() {
		var last error
		for rec, err := range j.Follow(ctx, s, after) {
			if err != nil {
				last = err
				continue
			}
			select {
			case f.records <- rec:
			case <-ctx.Done():
			}
		}
		f.ended <- last
	}()
	return f
}

// next returns the next n records.
func (f *follower) next(t *testing.T, n int) []journal.Record {
	t.Helper()
	var out []journal.Record
	for len(out) < n {
		select {
		case rec := <-f.records:
			out = append(out, rec)
		case err := <-f.ended:
			t.Fatalf("Follow ended after %d of %d records: %v", len(out), n, err)
		case <-time.After(patience):
			t.Fatalf("%d of %d records in %v", len(out), n, patience)
		}
	}
	return out
}

// end waits for the sequence to end, as it does when its context has.
func (f *follower) end(t *testing.T) {
	t.Helper()
	if err := <-f.ended; err != nil {
		t.Errorf("Follow = %v after its context ended, want no error", err)
	}
}

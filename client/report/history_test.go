package report

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// records is a journal.
type records []journal.Record

func (r records) EntryFrom(_ context.Context, _ content.SessionID, position uint64) (journal.Record, error) {
	for _, rec := range r {
		if rec.Guard >= position {
			return rec, nil
		}
	}
	return journal.Record{}, session.ErrNotFound
}

func (r records) RecordsFrom(_ context.Context, _ content.SessionID, after journal.Head) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for _, rec := range r {
			if rec.Seq > after.Seq && !yield(rec, nil) {
				return
			}
		}
	}
}

// told returns what a report says about a call.
func told(t *testing.T, c *Call) string {
	t.Helper()
	if c == nil {
		return "none"
	}
	line, err := json.Marshal(map[string]any{"call": c, "questions": c.Questions})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// TestNothingIsMissedByReadingLess compares, after every entry of every script of the core, what is found about each call
// with what all entries say.
func TestNothingIsMissedByReadingLess(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../loop/testdata/*.txt")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all := looptest.Records(t, string(script))
			state, names := loop.New("s"), map[content.CallID]bool{"none": true, "t1-r9-c1": true, "t9-r1-c1": true}
			for i, rec := range all {
				for n, ev := range rec.Entry.Events {
					switch e := any(ev).(type) {
					case events.ReplyRecorded: // as providers say it
						e.Model = "m-1"
						rec.Entry.Events[n] = e
					case events.ToolCallRequested:
						names[e.Call.ID], names[content.CallID(e.Call.Place)] = true, true
					case events.ApprovalRequired:
						names[content.CallID(e.Approval.ID)], names[e.Approval.CallID] = true, true
					}
				}
				if state.Fold(rec.Entry); state.Deleted != nil {
					return
				}
				whole := &history{state: state}
				for _, rec := range all[:i+1] {
					for _, ev := range rec.Entry.Events {
						whole.note(ev, rec.Entry.At)
					}
				}
				calls := Calls{From: records(all), State: state, Head: rec.Head}
				for name := range names {
					got, err := calls.Find(t.Context(), name)
					if diff := cmp.Diff(told(t, whole.find(name)), told(t, got)); err != nil || diff != "" {
						t.Fatalf("%s after entry %d: %v\n%s", name, rec.Seq, err, diff)
					}
				}
				for name := range names {
					reader := explain.NewCallReader(string(name))
					for _, rec := range all[:i+1] {
						if err := reader.Add(rec); err != nil {
							t.Fatal(err)
						}
					}
					want, missing := reader.Call()
					got, err := calls.Explain(t.Context(), string(name))
					if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(missing) {
						t.Fatalf("%s explained after entry %d: %v, want %v\n%s", name, rec.Seq, err, missing, diff)
					}
				}
				for _, n := range []int{0, len(state.Transcript) / 2} {
					want := map[content.CallID]Change{}
					for _, it := range state.Transcript[n:] {
						for _, call := range it.Calls() {
							if c := whole.find(call.ID); c != nil && c.Model != nil {
								want[call.ID] = Change{c.Input, c.changed}
							}
						}
					}
					got, err := calls.Changed(t.Context(), state.Transcript[n:])
					if diff := cmp.Diff(want, got); err != nil || diff != "" {
						t.Fatalf("changed in items from %d on, after entry %d: %v\n%s", n, rec.Seq, err, diff)
					}
				}
				dead, err := calls.Dead(t.Context())
				letters := state.DeadLetters()
				if err != nil || len(dead) != len(letters) {
					t.Fatalf("after entry %d: %d dead letters, %v; want %d", rec.Seq, len(dead), err, len(letters))
				}
				for i, l := range letters {
					if diff := cmp.Diff(told(t, whole.find(l.ID)), told(t, dead[i])); diff != "" {
						t.Fatalf("dead letter %s after entry %d:\n%s", l.ID, rec.Seq, diff)
					}
				}
			}
		})
	}
}

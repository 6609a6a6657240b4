package stream

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// A person approves one question about a call with other arguments. The remaining question is then about those.
func TestTheOtherQuestionsOfAPatchedCallHaveItsNewArguments(t *testing.T) {
	t.Parallel()
	ask := func(id content.ApprovalID, call content.CallID) events.ApprovalRequired {
		return events.ApprovalRequired{Approval: events.Approval{ID: id, CallID: call, Turn: "turn-1", Input: json.RawMessage(`{"n":1}`), Digest: "d1"}}
	}
	entries := [][]events.Event{
		{events.TurnStarted{Turn: "turn-1"}, ask("g1", "c1"), ask("g2", "c1"), ask("g3", "c2")},
		{events.ApprovalResolved{Approval: "g1", Call: "c1", Outcome: events.Approved, Input: json.RawMessage(`{"n":2}`), Digest: "d2"}},
	}
	turn, paused := NewTurn(1), [][]events.Approval{}
	for i, evs := range entries {
		rec := journal.Record{Head: journal.Head{Seq: uint64(i + 1)}, Entry: events.Entry{Events: evs}} //nolint:gosec // there are two
		turn.Show(Event{Entry: &rec}, func(s Step) {
			if p, ok := s.(PartPaused); ok {
				paused = append(paused, p.Open)
			}
		})
	}
	var got []string
	for _, open := range paused {
		for _, a := range open {
			got = append(got, string(a.ID)+" "+string(a.Input)+" "+a.Digest)
		}
	}
	want := []string{`g1 {"n":1} d1`, `g2 {"n":1} d1`, `g3 {"n":1} d1`, `g2 {"n":2} d2`, `g3 {"n":1} d1`}
	if len(paused) != 2 || len(got) != len(want) {
		t.Fatalf("asked %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("asked %s, want %s", got[i], want[i])
		}
	}
}

// A reader of the latest turns begins after the first of two inputs that become one turn.
func TestInputFromBeforeAStreamHasNoCommand(t *testing.T) {
	t.Parallel()
	one, two := content.UserText("one"), content.UserText("two")
	var turns Turns
	var got []string
	for i, e := range []events.Entry{
		{Cause: "c2", Events: []events.Event{events.InputQueued{Items: []content.Item{two}, Origin: events.FromHost}}},
		{Cause: "c3", Events: []events.Event{
			events.TurnStarted{Turn: "turn-1"}, events.InputAccepted{Turn: "turn-1", Items: []content.Item{one, two}, Origin: events.FromHost},
		}},
	} {
		rec := journal.Record{Head: journal.Head{Seq: uint64(i + 7)}, Entry: e} //nolint:gosec // there are two
		turns.Show(Event{Entry: &rec}, func(s Step) {
			if h, ok := s.(InputTaken); ok {
				got = append(got, h.Item.Text()+" "+h.Command)
			}
		})
	}
	if diff := cmp.Diff([]string{"one ", "two c2"}, got); diff != "" {
		t.Error(diff)
	}
}

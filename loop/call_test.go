package loop_test

import (
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// called folds a session whose calls have the IDs, one entry each.
func called(ids []content.CallID) *loop.State {
	s := loop.New("s")
	s.Fold(events.Entry{Session: "s", Seq: 1, Events: []events.Event{
		events.RunStarted{}, events.TurnStarted{Turn: "turn-1"}, events.RoundStarted{Turn: "turn-1", Round: 1},
	}})
	for i, id := range ids {
		s.Fold(events.Entry{Session: "s", Seq: uint64(i) + 2, Events: []events.Event{events.ToolCallRequested{Call: content.ToolCall{ID: id}}}})
	}
	return s
}

func TestDeadLettersAreListedUntilDecided(t *testing.T) {
	t.Parallel()
	s := toolRunning(t)
	dead := func() int { return len(s.Live.DeadLetters()) }
	do := func(c commands.Command) {
		t.Helper()
		if _, err := s.Do(t, s.Envelope(c)); err != nil {
			t.Fatal(err)
		}
	}
	do(commands.ReportAttemptLost{Place: "t1-r1-c1", Attempt: 1})
	if dead() != 1 {
		t.Fatalf("%d dead letters after a lost call, want 1", dead())
	}
	do(commands.SettleDeadLetter{Call: "c", Retry: true, MayRepeat: true})
	if dead() != 0 {
		t.Errorf("%d dead letters after a retry, want 0", dead())
	}
	do(commands.ReportAttemptLost{Place: "t1-r1-c1", Attempt: 2})
	if dead() != 1 {
		t.Errorf("%d dead letters after a lost retry, want 1", dead())
	}
	do(commands.Cancel{})
	do(commands.ReportModelStopped{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 2, Attempt: 1}})
	do(commands.Close{})
	if dead() != 0 {
		t.Errorf("%d dead letters in a closed session, want 0", dead())
	}
}

// BenchmarkManyCalls measures one call in a session with 50,000.
func BenchmarkManyCalls(b *testing.B) {
	ids := make([]content.CallID, 50_000)
	for i := range ids {
		ids[i] = content.CallID(content.PlaceOf(i/10, i%10, 1))
	}
	for b.Loop() {
		called(ids)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/call")
}

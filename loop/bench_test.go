package loop_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// rounds drives a session through n rounds of one tool call each, ten rounds a turn, until
// the last call runs. Each round adds two entries and two transcript items.
func rounds(tb testing.TB, n int) (*loop.State, []events.Entry) {
	tb.Helper()
	s := loop.New("s")
	var journal []events.Entry
	send := func(c commands.Command) {
		env := commands.Envelope{ID: fmt.Sprint("c", len(journal)), Session: "s", At: content.Time(len(journal)), Command: c}
		evs, err := loop.Decide(s, env)
		if err != nil || len(evs) == 0 {
			tb.Fatalf("Decide(%s) = %d events, %v", commands.NameOf(c), len(evs), err)
		}
		e := events.Entry{Session: "s", Seq: s.Seq + 1, Cause: env.ID, At: env.At, Epoch: 1, Events: evs}
		s.Fold(e)
		journal = append(journal, e)
	}
	send(commands.Claim{})
	send(commands.OpenSession{})
	for i := range n {
		if i%10 == 0 {
			if s.Turn != nil {
				send(commands.ReportReply{ModelCall: attemptOf(s), Items: []content.Item{content.AssistantText("done")}})
			}
			send(commands.SubmitInput{Items: []content.Item{content.UserText("go on")}})
		}
		send(toolReply(s))
		if i < n-1 {
			send(toolResult(s))
		}
	}
	return s, journal
}

func attemptOf(s *loop.State) commands.ModelCall {
	return commands.ModelCall{Turn: s.Turn.ID, Round: s.Turn.Round, Attempt: s.Turn.Attempt}
}

func toolReply(s *loop.State) commands.Command {
	call := content.ToolCall{Name: "read", Input: []byte(`{"path":"a.go"}`)}
	return commands.ReportReply{
		ModelCall: attemptOf(s),
		Items:     []content.Item{content.NewItem(content.Assistant, content.CallPart(call))},
		Usage:     content.Usage{InputTokens: 100, OutputTokens: 10},
		Routing:   []content.Routing{{Known: true, Queue: "default"}},
		Checks:    []commands.Check{{Place: content.PlaceOf(s.Turn.N, s.Turn.Round, 1)}},
	}
}

func toolResult(s *loop.State) commands.Command {
	c := s.Turn.Calls[0]
	r := commands.ReportResult{Place: c.Place, Attempt: 1, Queue: "default"}
	r.Outcome.Result = content.NewResult(c.ID, c.Name, content.StatusOK, "package a")
	return r
}

// The cost of a decision does not depend on the length of the conversation.
func TestDecideCostsTheSameInLongSessions(t *testing.T) {
	short, _ := rounds(t, 50)
	long, _ := rounds(t, 5000)
	if n, m := len(short.Transcript), len(long.Transcript); n > 150 || m < 10_000 {
		t.Fatalf("transcripts of %d and %d items", n, m)
	}
	for name, row := range map[string]struct {
		command func(*loop.State) commands.Command
		most    float64 // allocations, so that a growing decision is noticed
	}{
		"result": {toolResult, 16},
		"submit": {func(*loop.State) commands.Command {
			return commands.SubmitInput{Items: []content.Item{content.UserText("hurry")}}
		}, 10},
		"cancel": {func(*loop.State) commands.Command { return commands.Cancel{} }, 56},
	} {
		allocs, bytes := costOf(t, short, row.command(short))
		longAllocs, longBytes := costOf(t, long, row.command(long))
		if allocs > row.most {
			t.Errorf("%s: %v allocations, at most %v", name, allocs, row.most)
		}
		if longAllocs > allocs+2 || longBytes > bytes+bytes/4+256 {
			t.Errorf("%s: %v allocations, %v bytes in a long session; %v, %v in a short one", name, longAllocs, longBytes, allocs, bytes)
		}
	}
}

func costOf(t *testing.T, s *loop.State, c commands.Command) (allocs, bytes float64) {
	t.Helper()
	const runs = 200
	env := commands.Envelope{ID: "new", Session: "s", At: s.At, Command: c}
	decide := func() {
		if evs, err := loop.Decide(s, env); err != nil || len(evs) == 0 {
			t.Fatalf("Decide = %d events, %v", len(evs), err)
		}
	}
	allocs = testing.AllocsPerRun(runs, decide)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		decide()
	}
	runtime.ReadMemStats(&after)
	return allocs, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

func BenchmarkFold(b *testing.B) {
	_, journal := rounds(b, 5000)
	journal = journal[:10_000]
	n := 0
	for _, e := range journal {
		n += len(e.Events)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s := loop.New("s")
		for _, e := range journal {
			s.Fold(e)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{50, 5000} {
		s, _ := rounds(b, n)
		b.Run(fmt.Sprintf("result/items=%d", len(s.Transcript)), func(b *testing.B) {
			env := commands.Envelope{ID: "new", Session: "s", At: s.At, Command: toolResult(s)}
			b.ReportAllocs()
			for range b.N {
				if evs, err := loop.Decide(s, env); err != nil || len(evs) == 0 {
					b.Fatalf("Decide = %d events, %v", len(evs), err)
				}
			}
		})
	}
}

func BenchmarkPending(b *testing.B) {
	s, _ := rounds(b, 5000)
	b.ReportAllocs()
	for range b.N {
		if len(loop.Pending(s)) == 0 {
			b.Fatal("nothing owed")
		}
	}
}

package compare_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
)

// read reads a journal with one event in each entry.
func read(id content.SessionID, evs ...events.Event) *compare.Reader {
	r := &compare.Reader{}
	for n, ev := range evs {
		r.Add(journal.Record{
			Head:  journal.Head{Seq: uint64(n + 1)},
			Entry: events.Entry{Session: id, At: content.Time(n), Events: []events.Event{ev}},
		})
	}
	return r
}

func input(text string) events.Event {
	return events.InputQueued{Items: []content.Item{content.UserText(text)}}
}

func reply(text string) events.Event {
	return events.ReplyRecorded{Items: []content.Item{content.AssistantText(text)}}
}

func call(id content.CallID, tool, in string) events.Event {
	return events.ToolCallRequested{Call: content.ToolCall{ID: id, Name: tool, Input: json.RawMessage(in)}}
}

func result(id content.CallID, tool, text string) events.Event {
	return events.ToolResultReceived{Result: content.ToolResult{
		CallID: id, Name: tool, Status: content.StatusOK, Output: []content.Part{content.TextPart(text)},
	}}
}

func finished() events.Event { return events.TurnFinished{FinishReason: content.Completed} }

// lines shows changes.
func lines(d *compare.Diff) (out []string) {
	side := func(s *compare.Step) string {
		if s == nil {
			return "-"
		}
		return fmt.Sprintf("%d:%s %s %s", s.Seq, s.Kind, s.Tool, s.Line)
	}
	for _, c := range d.Changes {
		out = append(out, c.Change+" "+side(c.A)+" | "+side(c.B))
	}
	return out
}

func TestEachKindOfChangeIsNamed(t *testing.T) {
	t.Parallel()
	story := []events.Event{
		input("Weather?"), call("c1", "weather", `{"city": "Oslo"}`), result("c1", "weather", "sunny"), reply("It is sunny."), finished(),
	}
	for name, tt := range map[string]struct {
		change func([]events.Event) []events.Event
		want   []string
	}{
		"nothing": {func(e []events.Event) []events.Event { return e }, nil},
		"another id": {func(e []events.Event) []events.Event {
			e[1], e[2] = call("x", "weather", `{"city":"Oslo"}`), result("x", "weather", "sunny")
			return e
		}, nil},
		"other input":     {func(e []events.Event) []events.Event { e[0] = input("Rain?"); return e }, []string{"changed 1:input  Weather? | 1:input  Rain?"}},
		"other arguments": {func(e []events.Event) []events.Event { e[1] = call("c1", "weather", `{"city":"Bergen"}`); return e }, []string{`changed 2:call weather {"city":"Oslo"} | 2:call weather {"city":"Bergen"}`}},
		"another result":  {func(e []events.Event) []events.Event { e[2] = result("c1", "weather", "rain"); return e }, []string{"changed 3:result weather ok: sunny | 3:result weather ok: rain"}},
		"another reply":   {func(e []events.Event) []events.Event { e[3] = reply("Sun."); return e }, []string{"changed 4:reply  It is sunny. | 4:reply  Sun."}},
		"another end": {func(e []events.Event) []events.Event {
			e[4] = events.TurnFinished{FinishReason: content.Errored, Error: "gone"}
			return e
		}, []string{"changed 5:end  completed | 5:end  error: gone"}},
		"a dropped call": {func(e []events.Event) []events.Event { return append(e[:1:1], e[3:]...) }, []string{`dropped 2:call weather {"city":"Oslo"} | -`, "dropped 3:result weather ok: sunny | -"}},
		"an added call": {func(e []events.Event) []events.Event {
			return append(e[:3:3], append([]events.Event{call("c2", "mail", `{}`)}, e[3:]...)...)
		}, []string{"added - | 4:call mail {}"}},
		"a decision": {func(e []events.Event) []events.Event {
			return append(e[:2:2], append([]events.Event{events.ApprovalResolved{Call: "c1", Outcome: events.Approved}}, e[2:]...)...)
		}, []string{"added - | 3:decision weather approved"}},
		"nothing any more": {func([]events.Event) []events.Event { return nil }, []string{"dropped 1:input  Weather? | -", `dropped 2:call weather {"city":"Oslo"} | -`, "dropped 3:result weather ok: sunny | -", "dropped 4:reply  It is sunny. | -", "dropped 5:end  completed | -"}},
		"another tool":     {func(e []events.Event) []events.Event { e[1] = call("c1", "mail", `{}`); return e }, []string{`dropped 2:call weather {"city":"Oslo"} | -`, "added - | 2:call mail {}"}},
		"events of no step": {func(e []events.Event) []events.Event {
			return append([]events.Event{events.DriverClaimed{Node: "n2", Epoch: 2}}, e...)
		}, nil},
	} {
		d := compare.Between(read("a", story...), read("b", tt.change(append([]events.Event(nil), story...))...))
		if diff := cmp.Diff(tt.want, lines(d)); diff != "" || d.Same != (len(tt.want) == 0) {
			t.Errorf("%s: same is %v, changes (-want +got):\n%s", name, d.Same, diff)
		}
		if (d.First == nil) != d.Same {
			t.Errorf("%s: First = %v", name, d.First)
		}
	}
}

// TestASessionDoesNotDifferFromItself compares every frozen journal with itself.
func TestASessionDoesNotDifferFromItself(t *testing.T) {
	t.Parallel()
	for name, records := range frozen.Journals(t) {
		var sides [2]compare.Reader
		for i := range sides {
			for _, rec := range records {
				sides[i].Add(rec)
			}
		}
		if d := compare.Between(&sides[0], &sides[1]); !d.Same || d.First != nil || len(d.Changes) > 0 || !cmp.Equal(d.A, d.B) {
			t.Errorf("%s: %s", name, lines(d))
		}
	}
}

func TestSidesHaveTheirCost(t *testing.T) {
	t.Parallel()
	usage := content.Usage{InputTokens: 7, OutputTokens: 3, CostMicros: 20, Currency: "USD"}
	r := read("a", input("Hi"), reply("Hello"), events.UsageUpdated{Usage: usage}, finished())
	want := compare.Side{Session: "a", Entries: 4, Turns: 1, Rounds: 1, Usage: usage, Outcome: "completed"}
	if diff := cmp.Diff(want, r.Side); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRowsAreBothSessions edits a session at random: the rows have every step of both, in order, and no
// step that both have counts as a change.
func TestRowsAreBothSessions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		var a, b []events.Event
		for range dice.IntN(40) {
			ev := reply(strconv.Itoa(dice.IntN(5)))
			if dice.IntN(4) > 0 {
				a = append(a, ev)
			}
			if dice.IntN(4) > 0 {
				b = append(b, ev)
			}
		}
		d := compare.Between(read("a", a...), read("b", b...))
		var as, bs []uint64
		for _, r := range d.Rows {
			if r.A != nil {
				as = append(as, r.A.Seq)
			}
			if r.B != nil {
				bs = append(bs, r.B.Seq)
			}
			if r.Same != (r.A != nil && r.B != nil && r.A.Line == r.B.Line) {
				t.Errorf("seed %d: row %+v, %+v, same %v", seed, r.A, r.B, r.Same)
			}
		}
		if !counts(as, len(a)) || !counts(bs, len(b)) {
			t.Fatalf("seed %d: steps %v of %d and %v of %d", seed, as, len(a), bs, len(b))
		}
	}
}

// counts reports whether the numbers are 1 to n.
func counts(got []uint64, n int) bool {
	for i, v := range got {
		if v != uint64(i+1) {
			return false
		}
	}
	return len(got) == n
}

func BenchmarkBetween(b *testing.B) {
	var x, y []events.Event
	for i := range 20_000 {
		x = append(x, reply(strconv.Itoa(i)))
		if i%100 != 0 {
			y = append(y, reply(strconv.Itoa(i)))
		}
	}
	p, q := read("a", x...), read("b", y...)
	for b.Loop() {
		if d := compare.Between(p, q); len(d.Changes) != 200 {
			b.Fatalf("%d changes, want 200", len(d.Changes))
		}
	}
}

// TestAForkHasItsHistory compares a session with one that begins with its transcript: only what follows differs.
func TestAForkHasItsHistory(t *testing.T) {
	t.Parallel()
	said := content.AssistantText("Sunny.")
	said.FinishReason = content.Completed
	asked := content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c1", Name: "look", Input: json.RawMessage(`{ }`)}))
	asked.FinishReason = content.ToolCalls
	looked := content.NewItem(content.Tool, content.ResultPart(content.NewResult("c1", "look", content.StatusOK, "sun")))
	origin := read("a",
		events.RunStarted{Transcript: []content.Item{content.SystemText("Be brief.")}}, input("Hello"), events.TurnStarted{}, call("c1", "look", "{}"),
		result("c1", "look", "sun"), reply("Sunny."), finished(), input("Thanks"))
	fork := read("b",
		events.RunStarted{Transcript: []content.Item{content.SystemText("Be kind."), content.UserText("Hello"), asked, looked, said}}, input("Thanks"))
	want := []string{"changed 1:prompt  Be brief. | 1:prompt  Be kind."}
	if diff := cmp.Diff(want, lines(compare.Between(origin, fork))); diff != "" {
		t.Error(diff)
	}
	if origin.Open || fork.Open || fork.Outcome != "" {
		t.Errorf("open %t and %t, outcome %q", origin.Open, fork.Open, fork.Outcome)
	}
}

package audit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/tool"
)

// check returns every violation of a whole journal.
func check(records []journal.Record) []verdict.Fault {
	r, _ := Verify(journal.All(records)) // reading them cannot fail
	return r.Faults
}

// book is the events of each entry of a journal.
type book [][]events.Event

// records seals the entries into a chain.
func (b book) records(t testing.TB) []journal.Record {
	t.Helper()
	entries := make([]events.Entry, len(b))
	epoch := uint64(0)
	for i, evs := range b {
		for _, ev := range evs {
			if claim, ok := ev.(events.DriverClaimed); ok {
				epoch = claim.Epoch
			}
		}
		entries[i] = events.Entry{
			Session: "s-1", Cause: fmt.Sprintf("cmd-%d", i+1), At: content.Time(i + 1), Epoch: epoch, Events: evs,
		}
	}
	return linked(t, entries)
}

func linked(t testing.TB, entries []events.Entry) []journal.Record {
	t.Helper()
	var out []journal.Record
	var head journal.Head
	for _, e := range entries {
		e, payload, next, err := journal.Link(head, e)
		if err != nil {
			t.Fatal(err)
		}
		head = next
		out = append(out, journal.Record{Head: head, Entry: e, Payload: payload})
	}
	return out
}

// find returns the position of the n-th event of a kind.
func (b book) find(k events.Kind, n int) (entry, index int) {
	for i, evs := range b {
		for j, ev := range evs {
			if events.KindOf(ev) != k {
				continue
			}
			if n--; n == 0 {
				return i, j
			}
		}
	}
	panic(fmt.Sprintf("the journal has too few %s", k))
}

// change edits the n-th event of type T.
func change[T events.Event](b book, n int, edit func(*T)) book {
	var zero T
	i, j := b.find(events.KindOf(zero), n)
	ev := b[i][j].(T)
	edit(&ev)
	b[i][j] = ev
	return b
}

// drop removes the n-th event of a kind. The entry keeps at least a warning.
func (b book) drop(k events.Kind, n int) book {
	i, j := b.find(k, n)
	b[i] = slices.Delete(b[i], j, j+1)
	if len(b[i]) == 0 {
		b[i] = []events.Event{events.Warning{Code: "x"}}
	}
	return b
}

// before and after insert events next to the n-th event of a kind.
func (b book) before(k events.Kind, n int, evs ...events.Event) book {
	i, j := b.find(k, n)
	b[i] = slices.Insert(b[i], j, evs...)
	return b
}

func (b book) after(k events.Kind, n int, evs ...events.Event) book {
	i, j := b.find(k, n)
	b[i] = slices.Insert(b[i], j+1, evs...)
	return b
}

// end adds an entry.
func (b book) end(evs ...events.Event) book { return append(b, evs) }

func toolCall(id content.CallID, place content.Place, name string) content.ToolCall {
	return content.ToolCall{ID: id, Place: place, Name: name, Input: []byte(`{}`)}
}

func resultOf(id content.CallID, s content.Status) events.ToolResultReceived {
	return events.ToolResultReceived{Turn: "turn-1", Round: 1, Result: content.NewResult(id, "t", s, "out"), Attempt: 1}
}

// tools is a turn with a call c1 that needs an approval, a call c2 that does not, and an answer. It
// keeps every invariant.
func tools() book {
	c1, c2 := toolCall("c1", "t1-r1-c1", "t"), toolCall("c2", "t1-r1-c2", "t")
	reply := content.NewItem(content.Assistant, content.CallPart(c1), content.CallPart(c2))
	question := events.Approval{ID: "g1", CallID: "c1", TaskID: "t1-r1-c1", Turn: "turn-1", Round: 1, Tool: "t", Digest: tool.Digest(nil), RequestKind: "k"}
	usage := content.Usage{InputTokens: 10, OutputTokens: 1}
	return book{
		{events.DriverClaimed{Epoch: 1}},
		{events.RunStarted{Config: events.Config{Limits: events.Limits{MaxRounds: 5}}}},
		{events.InputQueued{Items: []content.Item{content.UserText("hi")}, Origin: events.FromHost}},
		{
			events.InputAccepted{Turn: "turn-1", Items: []content.Item{content.UserText("hi")}, Origin: events.FromHost},
			events.TurnStarted{Turn: "turn-1", Trigger: events.FromHost},
			events.RoundStarted{Turn: "turn-1", Round: 1},
			events.ModelCallStarted{Turn: "turn-1", Round: 1, Attempt: 1, TranscriptLen: 1},
		},
		{
			events.ReplyRecorded{Turn: "turn-1", Round: 1, Attempt: 1, Items: []content.Item{reply}, FinishReason: content.ToolCalls},
			events.UsageUpdated{Turn: "turn-1", Round: 1, Usage: usage, Source: "model"},
			events.ToolCallRequested{Turn: "turn-1", Round: 1, Call: c1},
			events.ToolCallRequested{Turn: "turn-1", Round: 1, Call: c2},
		},
		{events.ApprovalRequired{Approval: question}},
		{
			events.ApprovalResolved{Approval: "g1", Call: "c1", Outcome: events.Approved, By: "ada"},
			events.ToolDispatched{Call: "c1", Place: "t1-r1-c1", Attempt: 1, Digest: tool.Digest(nil)},
		},
		{
			resultOf("c1", content.StatusOK),
			events.ToolDispatched{Call: "c2", Place: "t1-r1-c2", Attempt: 1},
		},
		{
			resultOf("c2", content.StatusOK),
			events.RoundFinished{Turn: "turn-1", Round: 1, TranscriptLen: 4},
			events.RoundStarted{Turn: "turn-1", Round: 2},
			events.ModelCallStarted{Turn: "turn-1", Round: 2, Attempt: 1, TranscriptLen: 4},
		},
		{
			events.ReplyRecorded{
				Turn: "turn-1", Round: 2, Attempt: 1, FinishReason: content.Completed,
				Items: []content.Item{content.AssistantText("done")},
			},
			events.UsageUpdated{Turn: "turn-1", Round: 2, Usage: usage, Source: "model"},
			events.TurnFinished{Turn: "turn-1", FinishReason: content.Completed, Rounds: 2, Usage: usage.Add(usage)},
		},
	}
}

// next adds the beginning of another turn, up to its model call.
func (b book) next(n, transcript int, text string) book {
	turn := content.TurnIDFor(n)
	items := []content.Item{content.UserText(text)}
	return b.end(
		events.InputQueued{Items: items, Origin: events.FromHost},
		events.InputAccepted{Turn: turn, Items: items, Origin: events.FromHost},
		events.TurnStarted{Turn: turn, Trigger: events.FromHost},
		events.RoundStarted{Turn: turn, Round: 1},
		events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 1, TranscriptLen: transcript},
	)
}

package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/tool"
)

var input = []byte(`{"path":"main.go"}`)

// entries are those of a session with one turn: a call that was approved, and its result.
func entries() []events.Entry {
	digest := tool.Digest(input)
	call := content.ToolCall{ID: "c1", Place: "t1-r1-c1", Name: "write", Input: input}
	asked := call
	asked.Place = ""
	hello := content.UserText("hello")
	result := content.NewResult("c1", "write", content.StatusOK, "done it")
	out := []events.Entry{
		{Events: []events.Event{events.DriverClaimed{Epoch: 1, Node: "n1"}}},
		{Events: []events.Event{events.RunStarted{Config: events.Config{Model: "demo"}}}},
		{Events: []events.Event{events.InputQueued{Items: []content.Item{hello}, Origin: events.FromHost}}},
		{Events: []events.Event{
			events.InputAccepted{Turn: "turn-1", Items: []content.Item{hello}, Origin: events.FromHost},
			events.TurnStarted{Turn: "turn-1"},
			events.RoundStarted{Turn: "turn-1", Round: 1},
			events.ModelCallStarted{Turn: "turn-1", Round: 1, Attempt: 1, TranscriptLen: 1},
		}},
		{Events: []events.Event{
			events.ReplyRecorded{
				Turn: "turn-1", Round: 1, Attempt: 1, FinishReason: content.ToolCalls,
				Items: []content.Item{content.NewItem(content.Assistant, content.CallPart(asked))},
			},
			events.UsageUpdated{Turn: "turn-1", Round: 1, Source: "model"},
			events.ToolCallRequested{Turn: "turn-1", Round: 1, Call: call, Routing: content.Routing{Known: true, Digest: digest}},
		}},
		{Events: []events.Event{events.ApprovalRequired{Approval: events.Approval{
			ID: "a1", CallID: "c1", TaskID: "t1-r1-c1", Turn: "turn-1", Round: 1, Tool: "write", Input: input, Digest: digest, RequestKind: "k",
		}}}},
		{Events: []events.Event{
			events.ApprovalResolved{Approval: "a1", Call: "c1", Outcome: events.Approved, By: "ada", Digest: digest},
			events.ToolDispatched{Call: "c1", Place: "t1-r1-c1", Attempt: 1, Digest: digest},
		}},
		{Events: []events.Event{
			events.ToolResultReceived{Turn: "turn-1", Round: 1, Result: result, Attempt: 1},
			events.RoundFinished{Turn: "turn-1", Round: 1, TranscriptLen: 3},
			events.RoundStarted{Turn: "turn-1", Round: 2},
			events.ModelCallStarted{Turn: "turn-1", Round: 2, Attempt: 1, TranscriptLen: 3},
		}},
		{Events: []events.Event{
			events.ReplyRecorded{
				Turn: "turn-1", Round: 2, Attempt: 1, FinishReason: content.Completed,
				Items: []content.Item{content.AssistantText("written")},
			},
			events.UsageUpdated{Turn: "turn-1", Round: 2, Source: "model"},
			events.RoundFinished{Turn: "turn-1", Round: 2, TranscriptLen: 4},
			events.TurnFinished{Turn: "turn-1", FinishReason: content.Completed, Rounds: 2},
		}},
	}
	for i := range out {
		e := &out[i]
		e.Session, e.Cause, e.At, e.Epoch = "s-1", "cmd-"+string(rune('a'+i)), content.Time(1_700_000_000_000_000_000+i), 1
	}
	return out
}

// seal chains entries, as a writer of journals can.
func seal(t testing.TB, list []events.Entry) []journal.Record {
	t.Helper()
	var out []journal.Record
	var head journal.Head
	for _, e := range list {
		e, payload, next, err := journal.Link(head, e)
		if err != nil {
			t.Fatal(err)
		}
		head = next
		out = append(out, journal.Record{Head: head, Entry: e, Payload: payload})
	}
	return out
}

// rewritten chains the entries again after an edit.
func rewritten(t testing.TB, edit func([]events.Entry) []events.Entry) []journal.Record {
	t.Helper()
	return seal(t, edit(entries()))
}

// tombstone is appended to a journal after some entries were removed from it.
func tombstone(t testing.TB, of []journal.Record, d events.SessionDeleted) journal.Record {
	t.Helper()
	last := of[len(of)-1]
	e, payload, head, err := journal.Link(last.Head, events.Entry{
		Session: "s-1", Cause: "delete/1", At: last.Entry.At, Epoch: 1, Events: []events.Event{d},
	})
	if err != nil {
		t.Fatal(err)
	}
	return journal.Record{Head: head, Entry: e, Payload: payload}
}

// export returns the lines of an export.
func export(t testing.TB, records []journal.Record) []string {
	t.Helper()
	var b bytes.Buffer
	err := audit.Export(&b, journal.All(records))
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// replaced replaces the bytes of an entry, and rebuilds the chain after it.
func replaced(t testing.TB, records []journal.Record, n int, payload []byte) []journal.Record {
	t.Helper()
	out := slices.Clone(records[:n])
	r := records[n]
	r.Payload, r.Hash = payload, events.HashOf(payload)
	if e, err := events.Decode(payload); err == nil {
		r.Entry = e
	} else {
		r.Err = err
	}
	out = append(out, r)
	head := journal.Head{Seq: r.Seq, Hash: r.Hash}
	for _, next := range records[n+1:] {
		e, payload, following, err := journal.Link(head, next.Entry)
		if err != nil {
			t.Fatal(err)
		}
		head = following
		out = append(out, journal.Record{Head: head, Entry: e, Payload: payload})
	}
	return out
}

// payloadOf returns the payload in a line.
func payloadOf(t testing.TB, line string) []byte {
	t.Helper()
	var l struct{ Payload string }
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(l.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// judgeRecords verifies records with an anchor.
func judgeRecords(t testing.TB, records []journal.Record, end journal.Head) *verdict.Verdict {
	t.Helper()
	v, err := audit.Verify(journal.All(records), audit.Anchor{Session: "s-1", Seq: end.Seq, Hash: end.Hash})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

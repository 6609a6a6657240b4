package events

import (
	"testing"

	"github.com/turnlog/turnlog/content"
)

// benchEntries are the two entries of a round with one call: the reply and the result.
func benchEntries() []Entry {
	const place = content.Place("t12-r3-c1")
	call := content.ToolCall{ID: "t12-r3-c1", Place: place, Name: "read", Input: []byte(`{"path":"a.go"}`)}
	result := content.NewResult(call.ID, call.Name, content.StatusOK, "package a // and a little more of it")
	return []Entry{
		sampleEntry(
			ReplyRecorded{Turn: "turn-12", Round: 3, Attempt: 1, Items: []content.Item{
				{ID: "i112", Kind: content.Assistant, Parts: []content.Part{content.CallPart(call)}, CreatedAt: sampleTime},
			}},
			UsageUpdated{Turn: "turn-12", Round: 3, Usage: content.Usage{InputTokens: 100, OutputTokens: 10}, Source: "model"},
			ToolCallRequested{Turn: "turn-12", Round: 3, Call: call, Routing: content.Routing{Known: true, Queue: "default"}},
			ToolDispatched{Call: call.ID, Place: place, Attempt: 1, Queue: "default"},
		),
		sampleEntry(
			ToolResultReceived{Turn: "turn-12", Round: 3, Result: result, Attempt: 1},
			RoundFinished{Turn: "turn-12", Round: 3, TranscriptLen: 240},
			RoundStarted{Turn: "turn-12", Round: 4},
			ModelCallStarted{Turn: "turn-12", Round: 4, Attempt: 1, TranscriptLen: 240},
		),
	}
}

func BenchmarkEncodeEntries(b *testing.B) {
	entries := benchEntries()
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range entries {
			if _, err := e.Encode(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecodeEntries(b *testing.B) {
	var payloads [][]byte
	for _, e := range benchEntries() {
		payloads = append(payloads, mustEncode(b, e))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range payloads {
			if _, err := Decode(p); err != nil {
				b.Fatal(err)
			}
		}
	}
}

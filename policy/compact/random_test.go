package compact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/compact"
)

// writer generates transcripts like those of sessions.
type writer struct {
	*rand.Rand
	items []content.Item
	calls int
}

// transcript returns a valid transcript that a model can answer.
func transcript(seed uint64) []content.Item {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 7))} //nolint:gosec // a test wants to see it again
	for range w.IntN(3) {
		w.add(content.System, w.text())
	}
	for range w.IntN(2) {
		w.add(content.Developer, w.text())
	}
	for range w.IntN(8) {
		w.turn()
	}
	w.input()
	if w.IntN(3) == 0 {
		for range 1 + w.IntN(4) {
			w.round()
		}
	}
	return w.items
}

func (w *writer) add(k content.Kind, parts ...content.Part) *content.Item {
	it := content.NewItem(k, parts...)
	it.ID = content.ItemID(fmt.Sprintf("i%d", len(w.items)+1))
	w.items = append(w.items, it)
	return &w.items[len(w.items)-1]
}

func (w *writer) text() content.Part {
	return content.TextPart(strings.Repeat("word ", 1+w.IntN(60)))
}

func (w *writer) turn() {
	w.input()
	for range w.IntN(5) {
		w.round()
		if w.IntN(5) == 0 {
			w.input()
		}
	}
	switch w.IntN(6) {
	case 0: // canceled
	case 1:
		w.add(content.Assistant, w.text()).FinishReason = content.Compaction
		w.reply()
	default:
		w.reply()
	}
}

func (w *writer) input() {
	switch w.IntN(8) {
	case 0:
		w.add(content.Context, w.text())
	case 1:
		w.add(content.Notification, w.text(), content.ResultPart(content.NewResult("late", "a", content.StatusOK, "late")))
		return
	case 2:
		w.add(content.User, w.text())
	}
	w.add(content.User, w.text())
}

func (w *writer) reasoning() content.Part {
	return content.Part{Kind: content.ReasoningKind, Text: w.text().Text, Reasoning: &content.Reasoning{Signature: []byte("signed")}}
}

func (w *writer) reply() {
	var parts []content.Part
	if w.IntN(3) == 0 {
		parts = append(parts, w.reasoning())
	}
	it := w.add(content.Assistant, append(parts, w.text())...)
	w.bill(it)
}

func (w *writer) bill(it *content.Item) {
	if w.IntN(2) == 0 {
		it.Usage = &content.Usage{InputTokens: int64(1 + w.IntN(4000)), OutputTokens: int64(w.IntN(50))}
	}
}

// round is a reply with calls, of one or two items, and the calls' results.
func (w *writer) round() {
	var parts []content.Part
	if w.IntN(2) == 0 {
		parts = append(parts, w.reasoning())
		if w.IntN(3) == 0 {
			w.add(content.Assistant, parts...)
			parts = nil
		}
	}
	if w.IntN(2) == 0 {
		parts = append(parts, w.text())
	}
	var results []content.ToolResult
	for range 1 + w.IntN(3) {
		w.calls++
		id := content.CallID(fmt.Sprintf("c%d", w.calls))
		parts = append(parts, content.CallPart(content.ToolCall{ID: id, Name: "a", Input: json.RawMessage(`{"n":1}`)}))
		statuses := []content.Status{content.StatusOK, content.StatusOK, content.StatusError, content.StatusDenied, content.StatusLimit}
		results = append(results, content.NewResult(id, "a", statuses[w.IntN(len(statuses))], w.text().Text))
	}
	w.bill(w.add(content.Assistant, parts...))
	for _, r := range results {
		w.add(content.Tool, content.ResultPart(r))
	}
}

// strategy generates a strategy.
func strategy(seed uint64) compact.Strategy {
	r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a test wants to see it again
	one := func() compact.Strategy {
		switch r.IntN(6) {
		case 0:
			return compact.DropReasoning{}
		case 1:
			return compact.DropFailedResults{}
		case 2:
			return compact.KeepRecent{Items: 1 + r.IntN(12)}
		case 3:
			return compact.KeepRecent{Turns: 1 + r.IntN(4)}
		case 4:
			return compact.Summarise{
				Model: scribe{}, Keep: compact.KeepRecent{Items: 1 + r.IntN(12)}, MaxTokens: int64(20 + r.IntN(200)),
			}
		}
		return compact.KeepRecent{Tokens: int64(1 + r.IntN(3000))}
	}
	if r.IntN(2) == 0 {
		return one()
	}
	p := compact.Pipeline{}
	for range 1 + r.IntN(4) {
		p.Steps = append(p.Steps, one())
	}
	if r.IntN(2) == 0 {
		p.Target = int64(r.IntN(2000))
	}
	return p
}

// scribe is a model that writes long summaries.
type scribe struct{}

func (scribe) Name() string                     { return "fake:scribe" }
func (scribe) Capabilities() model.Capabilities { return model.Capabilities{} }

func (scribe) Call(_ context.Context, r model.Request, _ func(content.Delta)) (model.Reply, error) {
	text := fmt.Sprintf("%d bytes were read. %s", len(r.Transcript[1].Text()), strings.Repeat("And so on. ", 100))
	return model.Reply{
		Items: []content.Item{content.AssistantText(text)}, Usage: content.Usage{InputTokens: 5, OutputTokens: 3}, FinishReason: content.Completed,
	}, nil
}

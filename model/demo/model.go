package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/deltas"
	"github.com/turnlog/turnlog/model"
)

// name is what the model is called, here and on command lines.
const name = "demo"

// chunk is how many runes a delta has.
const chunk = 24

// Model answers questions about a directory by rules. It is safe for concurrent
// use.
type Model struct{}

// New returns the model.
func New() *Model { return &Model{} }

// Name returns demo.
func (*Model) Name() string { return name }

// Capabilities says that the model calls tools, several at once.
func (*Model) Capabilities() model.Capabilities {
	return model.Capabilities{Tools: true, Parallel: true}
}

// Call plans the next tool calls, or answers. It fails only when ctx ends. Usage
// is an estimate: it counts words.
func (*Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	number := 1 + assistants(r.Transcript)
	next := plan(turnOf(r))
	item := content.Item{Kind: content.Assistant}
	reason := content.Completed
	for i, c := range next.calls {
		id := fmt.Sprintf("demo_%d_%d", number, i+1)
		item.Parts = append(item.Parts, content.CallPart(content.ToolCall{Name: c.tool, Input: c.input, ProviderID: id}))
		reason = content.ToolCalls
	}
	if len(next.calls) == 0 {
		item.Parts = []content.Part{content.TextPart(disclaimer + "\n\n" + next.answer)}
	}
	items := []content.Item{item}
	if err := deltas.Stream(ctx, items, chunk, emit); err != nil {
		return model.Reply{}, err
	}
	return model.Reply{
		Items:        items,
		Usage:        content.Usage{InputTokens: words(r.Transcript), OutputTokens: words(items)},
		FinishReason: reason,
		Model:        name,
		ResponseID:   fmt.Sprintf("demo_%d", number),
	}, nil
}

func assistants(transcript []content.Item) int {
	n := 0
	for _, it := range transcript {
		if it.Kind == content.Assistant {
			n++
		}
	}
	return n
}

// words counts what items hold.
func words(items []content.Item) int64 {
	n := 0
	for _, it := range items {
		for _, p := range it.Parts {
			n += len(strings.Fields(p.Text))
			if p.Call != nil {
				n += 1 + len(strings.Fields(string(p.Call.Input)))
			}
			if p.Result != nil {
				n += len(strings.Fields(p.Result.Text()))
			}
		}
	}
	return int64(n)
}

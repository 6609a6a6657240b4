// Package demo is a model that needs no network and no key. Turnlog uses it when
// no other model is configured.
//
// It is not a language model, and every answer says so. It recognizes a few kinds
// of questions about files by their words, plans calls of the file tools, and
// writes its answer from the results alone. The next step is a function of the
// request, so a transcript always leads to the same reply.
package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/deltas"
	"github.com/turnlog/turnlog/model"
)

const (
	name  = "demo"
	chunk = 24 // runes per delta

	disclaimer = "This is Turnlog's offline demo model: no language model, only rules that plan calls of file tools.\n" +
		"Choose another one with --model, for example --model scripted:FILE.\n\n"
)

// Model answers questions about files. It is safe for concurrent use.
type Model struct{}

// New returns the model.
func New() *Model { return &Model{} }

// Name returns "demo".
func (*Model) Name() string { return name }

// Capabilities reports support for parallel tool calls and nothing else.
func (*Model) Capabilities() model.Capabilities {
	return model.Capabilities{Tools: true, Parallel: true}
}

// Call plans the next tool calls or answers the question. It fails only when ctx
// ends. Usage counts words instead of tokens.
func (*Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	number := 1
	for _, it := range r.Transcript {
		if it.Kind == content.Assistant {
			number++
		}
	}
	next := readTurn(r).next()
	item, reason := content.Item{Kind: content.Assistant}, content.Completed
	for i, c := range next.calls {
		c.ProviderID = fmt.Sprintf("demo_%d_%d", number, i+1)
		item.Parts, reason = append(item.Parts, content.CallPart(c)), content.ToolCalls
	}
	if len(next.calls) == 0 {
		item.Parts = []content.Part{content.TextPart(disclaimer + next.answer)}
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

// Package deltas splits a complete reply into the deltas that a streaming model would
// have sent: begin, append, commit, part by part. Models that know the whole reply at
// once use it.
package deltas

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// Stream emits the parts of items, with chunk runes per delta. If chunk is not
// positive, each text is one delta, and calls have no fragments of arguments. When ctx
// ends, Stream stops and returns the cause.
func Stream(ctx context.Context, items []content.Item, chunk int, emit func(content.Delta)) error {
	index := 0
	send := func(d content.Delta) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d.Part = index
		emit(d)
		return nil
	}
	for _, it := range items {
		for _, p := range it.Parts {
			if err := part(p, chunk, send); err != nil {
				return err
			}
			index++
		}
	}
	return nil
}

func part(p content.Part, chunk int, send func(content.Delta) error) error {
	begin := content.Delta{Op: content.BeginPart, Kind: p.Kind}
	commit := content.Delta{Op: content.CommitPart, Kind: p.Kind}
	rest := p.Text
	if p.Call != nil {
		begin.Call = &content.ToolCall{ID: p.Call.ID, Name: p.Call.Name, ProviderID: p.Call.ProviderID}
		commit.Call = p.Call
		if chunk > 0 {
			rest = string(p.Call.Input)
		}
	}
	if err := send(begin); err != nil {
		return err
	}
	runes := []rune(rest)
	if chunk <= 0 {
		chunk = max(1, len(runes))
	}
	for piece := range slices.Chunk(runes, chunk) {
		if err := send(content.Delta{Op: content.AppendPart, Kind: p.Kind, Text: string(piece)}); err != nil {
			return err
		}
	}
	return send(commit)
}

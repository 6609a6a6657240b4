package engine

import (
	"iter"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// partial is a reply that has not ended: what counts if the call is stopped, and what is sent again.
type partial struct {
	parts []partialPart
	size  int // bytes of messages that send all of it again
	sent  int // bytes of messages with fragments since all of it was sent again
}

type partialPart struct {
	begin content.Delta
	text  []byte
	end   *content.Delta // nil: the part has not ended
}

const (
	deltaOverhead = 128      // bytes of a message with a fragment, besides its text
	minSent       = 1 << 10  // bytes of fragments between two repetitions
	maxRepeated   = 64 << 10 // bytes of text in a repeated fragment
)

// add returns how many bytes of the part's text came before. A part out of order has none.
func (p *partial) add(d content.Delta) (before int) {
	if d.Part < 0 || d.Part > len(p.parts) {
		return 0
	}
	if d.Part == len(p.parts) {
		p.parts = append(p.parts, partialPart{begin: content.Delta{Part: d.Part, Op: content.BeginPart, Kind: d.Kind}})
		p.size += 2 * deltaOverhead // its beginning and its text
	}
	part := &p.parts[d.Part]
	before = len(part.text)
	switch d.Op {
	case content.BeginPart:
		part.begin = d
	case content.AppendPart:
		part.text = append(part.text, d.Text...)
	case content.CommitPart:
		part.end = &d
	}
	size := len(d.Text)
	if d.Op == content.CommitPart {
		p.size += deltaOverhead
		if d.Call != nil {
			size = len(d.Call.Input)
		}
	}
	p.size, p.sent = p.size+size, p.sent+size+deltaOverhead
	return before
}

// due returns all fragments so far, with the bytes of their parts' texts before them, if it is time to send them again; else none.
// Repetitions take at most half as many bytes as the fragments themselves. So a reader of a reply of some KB waits a few
// seconds for what it missed, and longer the longer the reply is.
func (p *partial) due() iter.Seq2[content.Delta, int] {
	if p.sent < max(minSent, 2*p.size) {
		return func(func(content.Delta, int) bool) {}
	}
	p.sent = 0
	return p.all
}

func (p *partial) all(yield func(content.Delta, int) bool) {
	for i, part := range p.parts {
		before := 0
		if !yield(part.begin, 0) {
			return
		}
		for text := range slices.Chunk(part.text, maxRepeated) {
			if !yield(content.Delta{Part: i, Op: content.AppendPart, Kind: part.begin.Kind, Text: string(text)}, before) {
				return
			}
			before += len(text)
		}
		if part.end != nil && !yield(*part.end, before) {
			return
		}
	}
}

// items returns what arrived, without calls: their arguments may be incomplete.
func (p *partial) items() []content.Item {
	var parts []content.Part
	for _, part := range p.parts {
		if kind := part.begin.Kind; (kind == content.TextKind || kind == content.ReasoningKind) && len(part.text) > 0 {
			parts = append(parts, content.Part{Kind: kind, Text: string(part.text)})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []content.Item{content.NewItem(content.Assistant, parts...)}
}

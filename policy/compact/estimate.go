package compact

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// Estimator estimates how many tokens an item costs. It must depend on the item alone, and
// not on its metadata, which models do not see, except for the size of what a part refers
// to.
type Estimator interface {
	// Tokens returns the item's size. It is never negative.
	Tokens(it content.Item) int64
}

// itemTokens is a provider's overhead per item.
const itemTokens = 4

// Bytes is the default estimator: the UTF-8 bytes of text, calls, results and text files,
// divided by PerToken and rounded up, plus 4 tokens per item. Four bytes per token suits
// English and code; other scripts need fewer.
//
// Media cost about what providers document. An image costs a token per 750 pixels after
// scaling to 1568 by 1568, from 85 to 1,600 tokens, and 1,600 if its size is unknown. A
// document costs 1,500 per page of 50 KiB, for at most a hundred pages. Audio and video cost
// one per 500 bytes. A reference to anything larger than 32 MiB costs 50.
type Bytes struct {
	PerToken float64 // 0: 4
}

// Tokens counts bytes.
func (b Bytes) Tokens(it content.Item) int64 {
	per := b.PerToken
	if per <= 0 {
		per = 4
	}
	size, media := weigh(it.Parts, per)
	return int64(math.Ceil(float64(size)/per)) + itemTokens + media
}

// weigh adds up the bytes of parts and the tokens of media.
func weigh(parts []content.Part, perToken float64) (size int, media int64) {
	for _, p := range parts {
		size += len(p.Text) + len(p.Data)
		if p.Media != nil {
			media += mediaTokens(p, perToken)
		}
		if r := p.Reasoning; r != nil {
			size += len(r.Signature) + len(r.Encrypted)
		}
		if c := p.Call; c != nil {
			size += len(c.Name) + len(c.Input)
		}
		if r := p.Result; r != nil {
			s, m := weigh(r.Output, perToken)
			size, media = size+s, media+m
		}
	}
	return size, media
}

// metaTokens marks the last item of a compacted transcript with its size then: earlier
// counts are of another transcript.
const metaTokens = "compacted_to_tokens"

// meter measures parts of one transcript.
type meter struct {
	est Estimator
	old int64 // the transcript's size: the base plus estimates
	sum int64 // its estimates alone
}

func newMeter(est Estimator, items []content.Item) meter {
	m := meter{est: est}
	m.sum = m.estimate(items)
	base, from := known(items)
	m.old = base + m.estimate(items[from:])
	if from > 0 && base == 0 { // a provider compacted the transcript
		for _, it := range items[:from] {
			if it.Kind == content.System {
				m.old += m.est.Tokens(it)
			}
		}
	}
	return m
}

// known returns the size of items[:from], from the newest item that has a count.
func known(items []content.Item) (tokens int64, from int) {
	for i, it := range slices.Backward(items) {
		if raw, ok := it.Metadata.Get(metaTokens); ok && json.Unmarshal(raw, &tokens) == nil && tokens > 0 {
			return tokens, i + 1
		}
		if it.FinishReason == content.Compaction {
			return 0, i
		}
		if u := it.Usage; u != nil && u.InputTokens > 0 {
			return u.TotalTokens(), i + 1
		}
	}
	return 0, 0
}

func anchored(items []content.Item, size int64) []content.Item {
	out := slices.Clone(items)
	if n := len(out); n > 0 {
		out[n-1].Metadata = out[n-1].Metadata.With(metaTokens, size)
	}
	return out
}

func (m meter) estimate(items []content.Item) int64 {
	var sum int64
	for _, it := range items {
		sum += m.est.Tokens(it)
	}
	return sum
}

// size returns the size of a part of the transcript whose estimates add up to sum.
// Estimates may be off by a factor, or by what the model sees besides the transcript; size
// returns the larger of both corrections.
func (m meter) size(sum int64) int64 {
	if sum >= m.sum {
		return m.old + sum - m.sum
	}
	share := int64(math.Ceil(float64(m.old) * float64(sum) / float64(m.sum)))
	return max(m.old-(m.sum-sum), share)
}

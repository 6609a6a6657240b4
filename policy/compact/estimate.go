package compact

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// Estimator guesses how many tokens an item costs a model. It must be a function of
// the item alone and leave its metadata out, which no model is shown; only the size of
// what a part refers to is there.
type Estimator interface {
	// Tokens is the item's size. It is never negative.
	Tokens(it content.Item) int64
}

// itemTokens is what a provider wraps around an item.
const itemTokens = 4

// Bytes is the default estimator: the UTF-8 bytes of text, calls and results, and of
// files that are text, divided by PerToken and rounded up, and 4 tokens for each item.
// Four bytes to a token suits English and code; other scripts need fewer.
//
// Media cost about what providers say: an image a token for every 750 pixels, after it
// was made to fit into 1568 by 1568, from 85 to 1,600 tokens, which is also taken for
// one whose size its first bytes do not tell; a document 1,500 for a page of 50 KiB, a
// hundred pages at most; sound and film one for 500 bytes. Of what is larger than 32 MiB
// models are only told, which costs 50.
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

// weigh adds up the bytes of parts, and the tokens of the media among them.
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

// metaTokens marks the last item of a transcript that was compacted, with the size
// that the transcript had then: what models counted before is of another one.
const metaTokens = "compacted_to_tokens"

// meter measures what is left of one transcript.
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
	if from > 0 && base == 0 { // a provider compacted: it goes on from there
		for _, it := range items[:from] {
			if it.Kind == content.System {
				m.old += m.est.Tokens(it)
			}
		}
	}
	return m
}

// known returns the size of items[:from], from the newest item that tells.
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

// size is that of a rest of the transcript whose estimates add up to sum. Estimates
// may be off by a factor, or by what the model is shown beside the transcript; the
// larger of both readings is taken.
func (m meter) size(sum int64) int64 {
	if sum >= m.sum {
		return m.old + sum - m.sum
	}
	share := int64(math.Ceil(float64(m.old) * float64(sum) / float64(m.sum)))
	return max(m.old-(m.sum-sum), share)
}

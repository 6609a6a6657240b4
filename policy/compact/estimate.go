package compact

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// Assumptions of an estimate. The package documentation states them for users.
const (
	bytesPerToken = 4 // suits English and code
	itemTokens    = 4 // a provider's overhead per item

	imageTokens = 1600 // the maximum that an image costs
	pageBytes   = 50 << 10
	pageTokens  = 1500
	maxPages    = 100 // no provider accepts more

	streamBytes     = 500      // bytes of audio or video per token
	otherTokens     = 500      // for anything else
	maxShown        = 32 << 20 // bytes; models get only a reference to larger media
	referenceTokens = 50
)

// estimate returns the estimated size of items. It ignores metadata, which models do not see.
func estimate(items []content.Item) (tokens int64) {
	for _, it := range items {
		size, media := weigh(it.Parts)
		tokens += (size+bytesPerToken-1)/bytesPerToken + media + itemTokens
	}
	return tokens
}

// weigh adds up the bytes of parts and the tokens of media.
func weigh(parts []content.Part) (size, media int64) {
	for _, p := range parts {
		size += int64(len(p.Text) + len(p.Data))
		if p.Media != nil {
			media += mediaTokens(p)
		}
		if r := p.Reasoning; r != nil {
			size += int64(len(r.Signature) + len(r.Encrypted))
		}
		if c := p.Call; c != nil {
			size += int64(len(c.Name) + len(c.Input))
		}
		if r := p.Result; r != nil {
			s, m := weigh(r.Output)
			size, media = size+s, media+m
		}
	}
	return size, media
}

func mediaTokens(p content.Part) int64 {
	size := p.Size()
	switch kind := cmp.Or(p.Media.Modality, content.Modality(p.Media.MIME)); {
	case size > maxShown:
		return referenceTokens
	case content.Textual(p.Media.MIME):
		return (size + bytesPerToken - 1) / bytesPerToken
	case kind == "image":
		return imageTokens
	case kind == "document":
		return pageTokens * min(1+max(size-1, 0)/pageBytes, maxPages)
	case kind == "audio", kind == "video":
		return max(size/streamBytes, otherTokens)
	}
	return otherTokens
}

// metaTokens marks the last item of a compacted transcript with its size then: earlier
// counts are of another transcript.
const metaTokens = "compacted_to_tokens"

// count returns the size of a transcript: the newest count of its model, and an estimate of
// the later items.
func count(items []content.Item) int64 {
	for i, it := range slices.Backward(items) {
		later := items[i+1:]
		var tokens int64
		if raw, ok := it.Metadata.Get(metaTokens); ok && json.Unmarshal(raw, &tokens) == nil && tokens > 0 {
			return tokens + estimate(later)
		}
		if it.FinishReason == content.Compaction { // the provider drops all earlier items but these
			system := slices.DeleteFunc(slices.Clone(items[:i]), func(it content.Item) bool { return it.Kind != content.System })
			return estimate(system) + estimate(items[i:])
		}
		if u := it.Usage; u != nil && u.InputTokens > 0 {
			return u.TotalTokens() + estimate(later)
		}
	}
	return estimate(items)
}

func anchored(items []content.Item, size int64) []content.Item {
	out := slices.Clone(items)
	if n := len(out); n > 0 {
		out[n-1].Metadata = out[n-1].Metadata.With(metaTokens, size)
	}
	return out
}

package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
)

// usage is the provider's count so far. Counts are totals: a later one replaces an
// earlier one, and a missing one changes nothing.
type usage struct {
	input, cacheRead, cacheWrite, output, thinking int64

	compactions content.Usage // in addition to those
}

func (u *usage) start(v sdk.BetaUsage) {
	u.input, u.output = v.InputTokens, v.OutputTokens
	u.cacheRead, u.cacheWrite = v.CacheReadInputTokens, v.CacheCreationInputTokens
	u.thinking = v.OutputTokensDetails.ThinkingTokens
	u.iterations(v.Iterations)
}

func (u *usage) update(v sdk.BetaMessageDeltaUsage) {
	if v.JSON.InputTokens.Valid() {
		u.input = v.InputTokens
	}
	if v.JSON.CacheReadInputTokens.Valid() {
		u.cacheRead = v.CacheReadInputTokens
	}
	if v.JSON.CacheCreationInputTokens.Valid() {
		u.cacheWrite = v.CacheCreationInputTokens
	}
	if v.JSON.OutputTokens.Valid() {
		u.output = v.OutputTokens
	}
	if v.JSON.OutputTokensDetails.Valid() {
		u.thinking = v.OutputTokensDetails.ThinkingTokens
	}
	if v.JSON.Iterations.Valid() {
		u.iterations(v.Iterations)
	}
}

// iterations counts the compactions, which the totals leave out.
func (u *usage) iterations(all sdk.BetaIterationsUsage) {
	u.compactions = content.Usage{}
	for _, it := range all {
		if it.Type == "compaction" {
			u.compactions = u.compactions.Add(content.Usage{
				InputTokens:     it.InputTokens + it.CacheReadInputTokens + it.CacheCreationInputTokens,
				OutputTokens:    it.OutputTokens,
				CacheReadTokens: it.CacheReadInputTokens, CacheWriteTokens: it.CacheCreationInputTokens,
			})
		}
	}
}

func (u *usage) total() content.Usage {
	return u.compactions.Add(content.Usage{
		InputTokens:     u.input + u.cacheRead + u.cacheWrite,
		OutputTokens:    u.output,
		ReasoningTokens: u.thinking,
		CacheReadTokens: u.cacheRead, CacheWriteTokens: u.cacheWrite,
	})
}

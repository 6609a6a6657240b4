package anthropic

import (
	"encoding/json"
	"fmt"
	"io"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// answer is a reply under construction, owned by the goroutine of the call.
type answer struct {
	reply   *provider.Reply
	message sdk.BetaMessage // without the deltas that reply has
	done    bool
}

// take handles one event.
func (a *answer) take(ev sdk.BetaRawMessageStreamEventUnion) error {
	if p := a.part(ev); p != nil && p.Kind != content.CustomKind {
		return a.grow(ev, p)
	}
	output := a.message.Usage.OutputTokens
	if err := a.message.Accumulate(ev); err != nil {
		return err //nolint:wrapcheck // failure translates it
	}
	switch ev.Type {
	case "content_block_start":
		return a.begin(ev.ContentBlock)
	case "content_block_stop":
		return a.end(int(ev.Index))
	case "message_delta":
		if !ev.Usage.JSON.OutputTokens.Valid() {
			a.message.Usage.OutputTokens = output // a missing count changes nothing
		}
	case "message_stop":
		a.done = true
	}
	return nil // the API may add event types
}

// part returns the part that a delta belongs to, or nil.
func (a *answer) part(ev sdk.BetaRawMessageStreamEventUnion) *content.Part {
	if i := int(ev.Index); ev.Type == "content_block_delta" && i >= 0 && i < a.reply.Len() {
		return a.reply.Edit(i)
	}
	return nil
}

func (a *answer) begin(b sdk.BetaRawContentBlockStartEventContentBlockUnion) error {
	p := content.Part{Kind: content.ReasoningKind, Name: Provider}
	switch b.Type {
	case "text":
		p = content.TextPart(b.Text)
	case "thinking":
		p.Text, p.Reasoning = b.Thinking, &content.Reasoning{Signature: []byte(b.Signature)}
	case "redacted_thinking":
		p.Reasoning = &content.Reasoning{Encrypted: []byte(b.Data), Redacted: true}
	case "tool_use":
		c := content.ToolCall{Name: b.Name, ProviderID: b.ID}
		if input := b.JSON.Input.Raw(); input != "" && input != "{}" {
			c.Input = json.RawMessage(input) // from servers that do not stream arguments
		}
		p = content.CallPart(c)
	default:
		p = content.Part{Kind: content.CustomKind, Name: customPrefix + b.Type}
	}
	_, err := a.reply.Begin(p)
	return err
}

func (a *answer) grow(ev sdk.BetaRawMessageStreamEventUnion, p *content.Part) error {
	i, d := int(ev.Index), ev.Delta
	switch {
	case d.Type == "text_delta" && p.Kind == content.TextKind:
		return a.reply.Append(i, d.Text)
	case d.Type == "thinking_delta" && p.Reasoning != nil:
		return a.reply.Append(i, d.Thinking)
	case d.Type == "input_json_delta" && p.Call != nil:
		return a.reply.Append(i, d.PartialJSON)
	case d.Type == "signature_delta" && p.Reasoning != nil:
		p.Reasoning.Signature = append(p.Reasoning.Signature, d.Signature...)
		return nil
	case oneOf(d.Type, "text_delta", "thinking_delta", "input_json_delta", "signature_delta"):
		return fmt.Errorf("%s for block %d, which is %s", d.Type, i, p.Kind)
	}
	return nil // citations and the like
}

func (a *answer) end(i int) error {
	if p := a.reply.Edit(i); p.Kind == content.CustomKind {
		p.Data = json.RawMessage(a.message.Content[i].RawJSON())
	}
	return a.reply.Commit(i)
}

// finish ends the open blocks and returns the reply.
func (a *answer) finish() (model.Reply, error) {
	if !a.done {
		return model.Reply{}, fmt.Errorf("the response ended before its last event: %w", io.ErrUnexpectedEOF)
	}
	for i := range a.reply.Len() {
		if err := a.end(i); err != nil {
			return model.Reply{}, err
		}
	}
	r, err := a.reply.Finish(model.Reply{
		Usage: a.usage(), FinishReason: finishReason(a.message.StopReason, a.reply.HasCalls()),
		Model: a.message.Model, ResponseID: a.message.ID,
	})
	if err == nil && r.FinishReason == content.Compaction && !compacted(r.Items) {
		return r, &model.Error{Class: content.ClassServer, Code: "compaction", Message: "the provider did not compact the context"}
	}
	detail := a.message.StopDetails
	if a.message.StopReason == sdk.BetaStopReasonRefusal && len(r.Items) > 0 && detail.JSON.Type.Valid() {
		r.Items[0].Metadata = r.Items[0].Metadata.With("refusal", map[string]string{
			"category": string(detail.Category), "explanation": detail.Explanation,
		})
	}
	return r, err
}

// usage returns what was billed so far. The totals leave out compactions.
func (a *answer) usage() content.Usage {
	u := a.message.Usage
	total := content.Usage{
		InputTokens:     u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		OutputTokens:    u.OutputTokens,
		ReasoningTokens: u.OutputTokensDetails.ThinkingTokens,
		CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
	}
	for _, it := range u.Iterations {
		if it.Type == "compaction" {
			total = total.Add(content.Usage{
				InputTokens:     it.InputTokens + it.CacheReadInputTokens + it.CacheCreationInputTokens,
				OutputTokens:    it.OutputTokens,
				CacheReadTokens: it.CacheReadInputTokens, CacheWriteTokens: it.CacheCreationInputTokens,
			})
		}
	}
	return total
}

// compacted reports whether there is a summary. Without one, the next round would
// only ask for it again.
func compacted(items []content.Item) bool {
	for _, it := range items {
		for _, p := range it.Parts {
			var b struct{ Content *string }
			if p.Name == compaction && json.Unmarshal(p.Data, &b) == nil && b.Content != nil {
				return true
			}
		}
	}
	return false
}

func finishReason(stop sdk.BetaStopReason, calls bool) content.FinishReason {
	switch stop {
	case sdk.BetaStopReasonEndTurn, sdk.BetaStopReasonStopSequence, sdk.BetaStopReasonToolUse:
		if calls {
			return content.ToolCalls
		}
		return content.Completed
	case sdk.BetaStopReasonMaxTokens, sdk.BetaStopReasonModelContextWindowExceeded:
		return content.MaxTokens
	case sdk.BetaStopReasonRefusal:
		return content.Blocked
	case sdk.BetaStopReasonCompaction:
		return content.Compaction
	case sdk.BetaStopReasonPauseTurn:
		return content.Other
	}
	return content.Other
}

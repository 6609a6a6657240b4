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
	reply  *provider.Reply
	id     string
	model  string
	usage  usage
	stop   sdk.BetaStopReason
	detail sdk.BetaRefusalStopDetails
	done   bool

	open map[int]*custom // blocks that are kept as JSON, by index
}

// protocolError is returned for an event that does not fit the earlier ones.
type protocolError struct{ message string }

// Error describes the event.
func (e *protocolError) Error() string { return e.message }

// take handles one event.
func (a *answer) take(ev sdk.BetaRawMessageStreamEventUnion) error {
	i := int(ev.Index)
	switch ev.Type {
	case "message_start":
		a.id, a.model = ev.Message.ID, ev.Message.Model
		a.usage.start(ev.Message.Usage)
	case "content_block_start":
		if i != a.reply.Len() {
			return &protocolError{fmt.Sprintf("block %d starts after %d blocks", i, a.reply.Len())}
		}
		return a.begin(ev.ContentBlock)
	case "content_block_delta", "content_block_stop":
		if i < 0 || i >= a.reply.Len() {
			return &protocolError{fmt.Sprintf("%s of block %d, which has not started", ev.Type, i)}
		}
		if ev.Type == "content_block_stop" {
			return a.end(i)
		}
		return a.grow(i, ev)
	case "message_delta":
		a.stop, a.detail = ev.Delta.StopReason, ev.Delta.StopDetails
		a.usage.update(ev.Usage)
	case "message_stop":
		a.done = true
	}
	return nil // the API may add event types
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
		if a.open == nil {
			a.open = map[int]*custom{}
		}
		a.open[a.reply.Len()] = &custom{raw: json.RawMessage(b.RawJSON())}
	}
	_, err := a.reply.Begin(p)
	return err
}

func (a *answer) grow(i int, ev sdk.BetaRawMessageStreamEventUnion) error {
	if c := a.open[i]; c != nil {
		return c.grow(ev)
	}
	d, p := ev.Delta, a.reply.Edit(i)
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
		return &protocolError{fmt.Sprintf("%s for block %d, which is %s", d.Type, i, p.Kind)}
	}
	return nil // citations and the like
}

func (a *answer) end(i int) error {
	if c := a.open[i]; c != nil {
		data, err := c.whole()
		if err != nil {
			return err
		}
		a.reply.Edit(i).Data = data
		delete(a.open, i)
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
		Usage: a.usage.total(), FinishReason: finishReason(a.stop, a.reply.HasCalls()), Model: a.model, ResponseID: a.id,
	})
	if err == nil && r.FinishReason == content.Compaction && !compacted(r.Items) {
		return r, &model.Error{Class: content.ClassServer, Code: "compaction", Message: "the provider did not compact the context"}
	}
	if a.stop == sdk.BetaStopReasonRefusal && len(r.Items) > 0 && a.detail.JSON.Type.Valid() {
		r.Items[0].Metadata = r.Items[0].Metadata.With("refusal", map[string]string{
			"category": string(a.detail.Category), "explanation": a.detail.Explanation,
		})
	}
	return r, err
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

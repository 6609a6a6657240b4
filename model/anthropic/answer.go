package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/sjson"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// answer builds a reply from the events of a response.
type answer struct {
	reply *provider.Reply
	usage usage
	input []byte // input of the current custom block
	end   ending
	done  bool
}

// event has the relevant fields of all events.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		ID    string          `json:"id"`
		Model string          `json:"model"`
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	Block json.RawMessage `json:"content_block"`
	Delta json.RawMessage `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// ending is the delta of a message.
type ending struct {
	Reason string   `json:"stop_reason"`
	Detail *refusal `json:"stop_details"`
}

type refusal struct {
	Category    string `json:"category"`
	Explanation string `json:"explanation"`
}

// Event implements provider.Handler.
func (a *answer) Event(name string, data []byte) (bool, error) {
	switch name { // compatible servers may leave the type out of the data
	case "ping":
		return false, nil
	case "error":
		return false, apiError(0, data, "")
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, err //nolint:wrapcheck // the caller adds the context
	}
	switch e.Type {
	case "message_start":
		a.reply.ID, a.reply.Model = e.Message.ID, e.Message.Model
		return false, a.spent(e.Message.Usage)
	case "content_block_start":
		return false, a.begin(e.Index, e.Block)
	case "content_block_delta":
		return false, a.grow(e.Index, e.Delta)
	case "content_block_stop":
		return false, a.commit(e.Index)
	case "message_delta":
		return false, errors.Join(provider.Lenient(e.Delta, &a.end), a.spent(e.Usage))
	case "message_stop":
		a.done = true
		return true, nil
	case "error":
		return false, apiError(0, data, "")
	}
	return false, nil // the API may add event types; ignore them
}

func (a *answer) begin(i int, raw json.RawMessage) error {
	var b struct {
		Type, Text, Thinking, Signature, Data, ID, Name string

		Input json.RawMessage
	}
	if i != a.reply.Len() {
		return fmt.Errorf("block %d begins after %d blocks", i, a.reply.Len())
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return err //nolint:wrapcheck // the caller adds the context
	}
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
		if string(b.Input) != "{}" {
			c.Input = b.Input // from servers that do not stream arguments
		}
		p = content.CallPart(c)
	default:
		p, a.input = content.Part{Kind: content.CustomKind, Name: customPrefix + b.Type, Data: raw}, nil
	}
	_, err := a.reply.Begin(p)
	return err
}

func (a *answer) block(i int) (*content.Part, error) {
	if i < 0 || i >= a.reply.Len() {
		return nil, fmt.Errorf("block %d has not begun", i)
	}
	return a.reply.Edit(i), nil
}

func (a *answer) grow(i int, raw json.RawMessage) error {
	p, err := a.block(i)
	if err != nil {
		return err
	}
	var d struct {
		Type, Text, Thinking, Signature string

		Input string `json:"partial_json"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return err //nolint:wrapcheck // the caller adds the context
	}
	switch {
	case p.Kind == content.CustomKind && d.Type == "input_json_delta":
		a.input = append(a.input, d.Input...)
		return nil
	case p.Kind == content.CustomKind:
		return merge(p, raw)
	case d.Type == "text_delta" && p.Kind == content.TextKind:
		return a.reply.Append(i, d.Text)
	case d.Type == "thinking_delta" && p.Reasoning != nil:
		return a.reply.Append(i, d.Thinking)
	case d.Type == "input_json_delta" && p.Call != nil:
		return a.reply.Append(i, d.Input)
	case d.Type == "signature_delta" && p.Reasoning != nil:
		p.Reasoning.Signature = append(p.Reasoning.Signature, d.Signature...)
		return nil
	case oneOf(d.Type, "text_delta", "thinking_delta", "input_json_delta", "signature_delta"):
		return fmt.Errorf("%s for block %d, which is %s", d.Type, i, p.Kind)
	}
	return nil // citations and the like
}

// merge sets the fields of a delta in a custom block, whose other bytes do not change.
func merge(p *content.Part, delta json.RawMessage) error {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(delta, &fields)
	delete(fields, "type")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err == nil {
			p.Data, err = sjson.SetRawBytes(p.Data, name, fields[name])
		}
	}
	return err //nolint:wrapcheck // the caller adds the context
}

// commit ends a block.
func (a *answer) commit(i int) error {
	p, err := a.block(i)
	if err == nil && p.Kind == content.CustomKind && json.Valid(a.input) {
		p.Data, err = sjson.SetRawBytes(p.Data, "input", a.input)
	}
	if err != nil {
		return err //nolint:wrapcheck // the caller adds the context
	}
	return a.reply.Commit(i)
}

// Reason implements provider.Handler.
func (a *answer) Reason() (content.FinishReason, error) {
	if !a.done {
		return "", nil
	}
	switch a.end.Reason {
	case "end_turn", "stop_sequence", "tool_use":
		if a.reply.HasCalls() {
			return content.ToolCalls, nil
		}
		return content.Completed, nil
	case "max_tokens", "model_context_window_exceeded":
		return content.MaxTokens, nil
	case "refusal":
		return content.Blocked, nil
	case "compaction":
		if !a.compacted() {
			return "", &model.Error{Class: content.ClassServer, Code: "compaction", Message: "the provider did not compact the context"}
		}
		return content.Compaction, nil
	}
	return content.Other, nil // pause_turn, or a new one
}

// compacted reports whether there is a summary. Without one, the next round would
// only ask for it again.
func (a *answer) compacted() bool {
	for i := range a.reply.Len() {
		var b struct{ Content *string }
		if p := a.reply.Edit(i); p.Name == compaction && json.Unmarshal(p.Data, &b) == nil && b.Content != nil {
			return true
		}
	}
	return false
}

// usage counts tokens. The totals leave out compactions.
type usage struct {
	tokens

	Iterations []struct {
		tokens

		Type string `json:"type"`
	} `json:"iterations"`
}

type tokens struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (t tokens) usage() content.Usage {
	return content.Usage{
		InputTokens: t.Input + t.CacheRead + t.CacheWrite, OutputTokens: t.Output, ReasoningTokens: t.Details.Thinking,
		CacheReadTokens: t.CacheRead, CacheWriteTokens: t.CacheWrite,
	}
}

// spent updates the usage so far. A missing count changes nothing.
func (a *answer) spent(raw json.RawMessage) error {
	if err := provider.Lenient(raw, &a.usage); err != nil {
		return err
	}
	a.reply.Usage = a.usage.tokens.usage()
	for _, it := range a.usage.Iterations {
		if it.Type == "compaction" {
			a.reply.Usage = a.reply.Usage.Add(it.usage())
		}
	}
	return nil
}

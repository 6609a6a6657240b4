package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/turnlog/turnlog/content"
)

const (
	customPrefix = Provider + "."
	compaction   = customPrefix + "compaction"
)

// blocks returns the block of a part, or nothing if the API has none for it.
func blocks(k content.Kind, p content.Part, calls map[content.CallID]string) []any {
	switch p.Kind {
	case content.TextKind:
		return text(tagged(k, p.Text))
	case content.StructuredKind:
		return text(tagged(k, string(p.Data)))
	case content.MediaKind, content.FileKind:
		return media(k, p)
	case content.ReasoningKind:
		return reasoning(k, p)
	case content.ToolCallKind:
		return call(k, p.Call, calls)
	case content.ToolResultKind:
		return result(k, p.Result, calls)
	case content.CustomKind:
		if k == content.Assistant && strings.HasPrefix(p.Name, customPrefix) && json.Valid(p.Data) {
			return []any{p.Data}
		}
	}
	return nil
}

// text returns a text block. The API rejects blank ones.
func text(s string) []any {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	return []any{object{"type": "text", "text": s}}
}

// reasoning returns a thinking block, if this provider wrote it and it is complete: thinking that was
// cut off has no signature.
func reasoning(k content.Kind, p content.Part) []any {
	r := p.Reasoning
	switch {
	case k != content.Assistant || p.Name != Provider || r == nil:
		return nil
	case r.Redacted:
		return []any{object{"type": "redacted_thinking", "data": string(r.Encrypted)}}
	case len(r.Signature) == 0:
		return nil
	}
	return []any{object{"type": "thinking", "thinking": p.Text, "signature": string(r.Signature)}}
}

func call(k content.Kind, c *content.ToolCall, calls map[content.CallID]string) []any {
	if k != content.Assistant || c == nil {
		return nil
	}
	input := c.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return []any{object{"type": "tool_use", "id": calls[c.ID], "name": c.Name, "input": input}}
}

// result returns the result of a call, or its text if the call is no longer in the
// transcript. An error may contain only text, so its media follow it.
func result(k content.Kind, r *content.ToolResult, calls map[content.CallID]string) []any {
	if r == nil || k == content.System || k == content.Developer || k == content.Assistant {
		return nil
	}
	id, ok := calls[r.CallID]
	if !ok || k != content.Tool {
		return text(tagged(k, r.Text()))
	}
	var inside, after []any
	for _, p := range r.Output {
		for _, b := range blocks(k, p, nil) {
			if o, ok := b.(object); r.IsError && ok && o["type"] != "text" {
				after = append(after, b)
			} else {
				inside = append(inside, b)
			}
		}
	}
	o := object{"type": "tool_result", "tool_use_id": id}
	o.Opt("is_error", r.IsError)
	o.Opt("content", inside)
	return append([]any{o}, after...)
}

func isCompaction(b any) bool {
	raw, ok := b.(json.RawMessage)
	var head struct{ Type string }
	return ok && json.Unmarshal(raw, &head) == nil && customPrefix+head.Type == compaction
}

package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/turnlog/turnlog/content"
)

const (
	customPrefix = Provider + "."
	compaction   = customPrefix + "compaction"
)

// blocks returns the block of a part, or nothing if the API has none for it.
func blocks(k content.Kind, p content.Part, calls map[content.CallID]string) []sdk.BetaContentBlockParamUnion {
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
			return one(param.Override[sdk.BetaContentBlockParamUnion](verbatim(p.Data)))
		}
	}
	return nil
}

func one(b sdk.BetaContentBlockParamUnion) []sdk.BetaContentBlockParamUnion {
	return []sdk.BetaContentBlockParamUnion{b}
}

// text returns a text block. The API rejects blank ones.
func text(s string) []sdk.BetaContentBlockParamUnion {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	return one(sdk.NewBetaTextBlock(s))
}

// reasoning returns a thinking block, if this provider wrote it and it is complete:
// thinking that was cut off has no signature.
func reasoning(k content.Kind, p content.Part) []sdk.BetaContentBlockParamUnion {
	r := p.Reasoning
	switch {
	case k != content.Assistant || p.Name != Provider || r == nil:
		return nil
	case r.Redacted:
		return one(sdk.NewBetaRedactedThinkingBlock(string(r.Encrypted)))
	case len(r.Signature) == 0:
		return nil
	}
	return one(sdk.NewBetaThinkingBlock(string(r.Signature), p.Text))
}

func call(k content.Kind, c *content.ToolCall, calls map[content.CallID]string) []sdk.BetaContentBlockParamUnion {
	if k != content.Assistant || c == nil {
		return nil
	}
	input := c.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return one(sdk.NewBetaToolUseBlock(calls[c.ID], input, c.Name))
}

// result returns the result of a call, or its text if the call is no longer in the
// transcript. An error may contain only text, so its media follow it.
func result(k content.Kind, r *content.ToolResult, calls map[content.CallID]string) []sdk.BetaContentBlockParamUnion {
	if r == nil || k == content.System || k == content.Developer || k == content.Assistant {
		return nil
	}
	id, ok := calls[r.CallID]
	if !ok || k != content.Tool {
		return text(tagged(k, r.Text()))
	}
	b := sdk.BetaToolResultBlockParam{ToolUseID: id}
	if r.IsError {
		b.IsError = sdk.Bool(true)
	}
	var after []sdk.BetaContentBlockParamUnion
	for _, p := range r.Output {
		for _, u := range blocks(k, p, nil) {
			if r.IsError && u.OfText == nil {
				after = append(after, u)
				continue
			}
			b.Content = append(b.Content, sdk.BetaToolResultBlockParamContentUnion{
				OfText: u.OfText, OfImage: u.OfImage, OfDocument: u.OfDocument,
			})
		}
	}
	return append(one(sdk.BetaContentBlockParamUnion{OfToolResult: &b}), after...)
}

// verbatim is a block of the provider that is sent back unchanged.
type verbatim json.RawMessage

// MarshalJSON returns the bytes.
func (v verbatim) MarshalJSON() ([]byte, error) { return v, nil }

// isCompaction reports whether b is a compaction by the provider.
func isCompaction(b sdk.BetaContentBlockParamUnion) bool {
	raw, ok := b.Overrides()
	if !ok {
		return false
	}
	v, ok := raw.(verbatim)
	if !ok {
		return false
	}
	var head struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(v, &head) == nil && customPrefix+head.Type == compaction
}

package content

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// Kind is the author of an item.
type Kind string

// The kinds of items.
const (
	System       Kind = "system"
	Developer    Kind = "developer"
	User         Kind = "user"
	Assistant    Kind = "assistant"
	Tool         Kind = "tool"
	Context      Kind = "context"
	Notification Kind = "notification" // an out-of-band fact, such as the outcome of a background call
)

// FinishReason is why a reply or a turn ended.
type FinishReason string

// The finish reasons. ToolCalls and Compaction end only replies; Cancelled, Limit,
// Terminated and Errored end only turns.
const (
	Completed  FinishReason = "completed"
	ToolCalls  FinishReason = "tool_call"
	MaxTokens  FinishReason = "max_tokens"
	Blocked    FinishReason = "blocked"
	Compaction FinishReason = "compaction"
	Cancelled  FinishReason = "cancelled"
	Limit      FinishReason = "limit"
	Terminated FinishReason = "terminated"
	Errored    FinishReason = "error"
	Other      FinishReason = "other"
)

// Item is one entry of a transcript.
type Item struct {
	ID           ItemID       `msgpack:"id,omitempty" json:"id,omitempty"`
	Kind         Kind         `msgpack:"k" json:"kind"`
	Parts        []Part       `msgpack:"p" json:"parts"`
	CreatedAt    Time         `msgpack:"at,omitempty" json:"created_at,omitempty"`
	Usage        *Usage       `msgpack:"u,omitempty" json:"usage,omitempty"`          // Assistant items only
	FinishReason FinishReason `msgpack:"fr,omitempty" json:"finish_reason,omitempty"` // Assistant items only
	Metadata     Metadata     `msgpack:"md,omitempty" json:"metadata,omitempty"`
}

// NewItem returns an item of the kind with the parts.
func NewItem(k Kind, parts ...Part) Item { return Item{Kind: k, Parts: parts} }

// UserText returns a User item with one text part.
func UserText(text string) Item { return NewItem(User, TextPart(text)) }

// SystemText returns a System item with one text part.
func SystemText(text string) Item { return NewItem(System, TextPart(text)) }

// AssistantText returns an Assistant item with one text part.
func AssistantText(text string) Item { return NewItem(Assistant, TextPart(text)) }

// Text joins the text parts of the item.
func (it Item) Text() string {
	if len(it.Parts) == 1 && it.Parts[0].Kind == TextKind {
		return it.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range it.Parts {
		if p.Kind == TextKind {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Calls returns the tool calls in the item, in order.
func (it Item) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range it.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// MaxCalls is how many tools a reply may call. It is limited because each result makes the round examine all its calls.
const MaxCalls = 1000

// CountCalls returns how many tools the items call.
func CountCalls(items []Item) (n int) {
	for _, it := range items {
		for _, p := range it.Parts {
			if p.Call != nil {
				n++
			}
		}
	}
	return n
}

// Results returns the tool results in the item, in order.
func (it Item) Results() []ToolResult {
	var results []ToolResult
	for _, p := range it.Parts {
		if p.Result != nil {
			results = append(results, *p.Result)
		}
	}
	return results
}

// Calls returns the tool calls of items, in order.
func Calls(items []Item) (calls []ToolCall) {
	for _, it := range items {
		calls = append(calls, it.Calls()...)
	}
	return calls
}

// Results returns the tool results of items, in order.
func Results(items []Item) (results []ToolResult) {
	for _, it := range items {
		results = append(results, it.Results()...)
	}
	return results
}

// PartKind is the variant of a [Part].
type PartKind string

// The kinds of parts.
const (
	TextKind       PartKind = "text"
	MediaKind      PartKind = "media"
	FileKind       PartKind = "file"
	StructuredKind PartKind = "structured"
	ReasoningKind  PartKind = "reasoning"
	ToolCallKind   PartKind = "tool_call"
	ToolResultKind PartKind = "tool_result"
	CustomKind     PartKind = "custom"
)

// Part is a piece of an item. Kind determines which other fields are used.
type Part struct {
	Kind      PartKind        `msgpack:"k" json:"kind"`
	Text      string          `msgpack:"t,omitempty" json:"text,omitempty"`      // text, reasoning
	Name      string          `msgpack:"n,omitempty" json:"name,omitempty"`      // file name, schema of a structured part, kind of a custom part, provider of reasoning
	Data      json.RawMessage `msgpack:"d,omitempty" json:"data,omitempty"`      // structured, custom
	Media     *Media          `msgpack:"m,omitempty" json:"media,omitempty"`     // media, file
	Reasoning *Reasoning      `msgpack:"r,omitempty" json:"reasoning,omitempty"` // for a reasoning part, text or call
	Call      *ToolCall       `msgpack:"c,omitempty" json:"call,omitempty"`      // tool_call
	Result    *ToolResult     `msgpack:"rs,omitempty" json:"result,omitempty"`   // tool_result
	Metadata  Metadata        `msgpack:"md,omitempty" json:"metadata,omitempty"`
}

// TextPart returns a text part.
func TextPart(text string) Part { return Part{Kind: TextKind, Text: text} }

// CallPart returns a part that contains a tool call.
func CallPart(c ToolCall) Part { return Part{Kind: ToolCallKind, Call: &c} }

// ResultPart returns a part that contains a tool result.
func ResultPart(r ToolResult) Part { return Part{Kind: ToolResultKind, Result: &r} }

// StructuredPart returns a part that contains a JSON value.
func StructuredPart(data json.RawMessage) Part { return Part{Kind: StructuredKind, Data: data} }

// Weight returns approximately how many bytes items take in memory.
func Weight(items ...Item) (n int64) {
	for _, it := range items {
		n += 128 + it.Metadata.weight() + weightOf(it.Parts)
	}
	return n
}

func weightOf(parts []Part) (n int64) {
	for _, p := range parts {
		n += 192 + int64(len(p.Text)+len(p.Name)+len(p.Data)) + p.Metadata.weight()
		if p.Media != nil {
			n += int64(len(p.Media.Bytes) + len(p.Media.URI))
		}
		if p.Reasoning != nil {
			n += int64(len(p.Reasoning.Signature) + len(p.Reasoning.Encrypted))
		}
		if p.Call != nil {
			n += 192 + int64(len(p.Call.Input))
		}
		if p.Result != nil {
			n += 192 + p.Result.Metadata.weight() + weightOf(p.Result.Output)
		}
	}
	return n
}

// Media is an image, audio, video, document or file, inline or by reference.
type Media struct {
	Modality string `msgpack:"mo,omitempty" json:"modality,omitempty"` // image, audio, video, document, binary
	MIME     string `msgpack:"mt,omitempty" json:"mime,omitempty"`
	Bytes    []byte `msgpack:"b,omitempty" json:"bytes,omitempty"` // inline, or
	URI      string `msgpack:"u,omitempty" json:"uri,omitempty"`   // by reference
}

// Reasoning is data that a provider wants back unchanged with a reasoning part, text or
// call. It is not sent to other providers.
type Reasoning struct {
	Signature []byte `msgpack:"s,omitempty" json:"signature,omitempty"`
	Encrypted []byte `msgpack:"e,omitempty" json:"encrypted,omitempty"`
	Redacted  bool   `msgpack:"r,omitempty" json:"redacted,omitempty"`
}

// Delta is a fragment of a reply in progress. Deltas are never stored. A new attempt
// supersedes the deltas of the previous one.
type Delta struct {
	Part int       `msgpack:"p" json:"part"` // index of the part in the reply
	Op   DeltaOp   `msgpack:"o" json:"op"`
	Kind PartKind  `msgpack:"k,omitempty" json:"kind,omitempty"` // of the part
	Text string    `msgpack:"t,omitempty" json:"text,omitempty"` // fragment of text, reasoning or arguments
	Call *ToolCall `msgpack:"c,omitempty" json:"call,omitempty"` // begin: id and name; commit: the complete call
}

// DeltaOp is what a [Delta] does to its part.
type DeltaOp string

// The operations of deltas.
const (
	BeginPart  DeltaOp = "begin"
	AppendPart DeltaOp = "append"
	CommitPart DeltaOp = "commit"
)

// CloneItems returns a copy of items with copies of their slices of parts. Values that parts point
// to are shared.
func CloneItems(items []Item) []Item {
	out := slices.Clone(items)
	for i := range out {
		out[i].Parts = slices.Clone(out[i].Parts)
	}
	return out
}

// DetachItems returns a deep copy of items.
func DetachItems(items []Item) []Item {
	out := slices.Clone(items)
	for i := range out {
		it := &out[i]
		it.Usage, it.Metadata, it.Parts = detach(it.Usage), it.Metadata.detached(), detachParts(it.Parts)
	}
	return out
}

func detachParts(parts []Part) []Part {
	out := slices.Clone(parts)
	for i := range out {
		p := &out[i]
		p.Data, p.Metadata = slices.Clone(p.Data), p.Metadata.detached()
		p.Media, p.Reasoning, p.Call, p.Result = detach(p.Media), detach(p.Reasoning), detach(p.Call), detach(p.Result)
		if m := p.Media; m != nil {
			m.Bytes = slices.Clone(m.Bytes)
		}
		if r := p.Reasoning; r != nil {
			r.Signature, r.Encrypted = slices.Clone(r.Signature), slices.Clone(r.Encrypted)
		}
		if c := p.Call; c != nil {
			c.Input = slices.Clone(c.Input)
		}
		if r := p.Result; r != nil {
			r.Output, r.Metadata = detachParts(r.Output), r.Metadata.detached()
		}
	}
	return out
}

func detach[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Stripped returns the items without the fields that only the core sets.
func Stripped(items []Item) []Item {
	out := slices.Clone(items)
	for i := range out {
		out[i].Metadata = out[i].Metadata.WithoutReserved()
		out[i].ID, out[i].CreatedAt, out[i].Usage, out[i].FinishReason = "", 0, nil, ""
	}
	return out
}

// OfReply converts the reason to one that a reply can have. Turns end for more reasons than replies do.
func (r FinishReason) OfReply(calls int) FinishReason {
	known := []FinishReason{Completed, ToolCalls, MaxTokens, Blocked, Compaction, Cancelled}
	switch {
	case r == "" && calls > 0:
		return ToolCalls
	case r == "":
		return Completed
	case !slices.Contains(known, r):
		return Other
	}
	return r
}

// DigestForm is the prefix of digests of transcripts that can be computed again from journals. Digests of earlier
// releases have no prefix and were computed from other bytes.
const DigestForm = "items/v1:"

// Digest returns the digest of a transcript. It covers the bytes as in journals, since a model's output need not be
// valid JSON.
func Digest(items []Item) (string, error) {
	raw, err := msgpack.Marshal(items)
	if err != nil {
		return "", fmt.Errorf("digest of the transcript: %w", err)
	}
	sum := sha256.Sum256(raw)
	return DigestForm + hex.EncodeToString(sum[:]), nil
}

package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// chatStream builds a reply from the chunks of Chat.
type chatStream struct {
	m     *Model
	reply *provider.Reply

	calls     []*chatCall
	details   []map[string]json.RawMessage
	detailsAt int // the part of the details

	reason  string // the server's finish reason; empty: not yet known
	ended   bool   // by the end mark, which some servers omit
	refused bool
}

// chunk is one event, or the whole response of a server that does not stream.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Usage   *chatUsage      `json:"usage"`
	Choices []struct {
		Delta        *delta `json:"delta"`
		Message      *delta `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// delta is a fragment of a message. Fields whose type differs between servers are
// decoded later.
type delta struct {
	Content          json.RawMessage              `json:"content"`
	Refusal          string                       `json:"refusal"`
	ReasoningContent json.RawMessage              `json:"reasoning_content"`
	Reasoning        json.RawMessage              `json:"reasoning"`
	ReasoningDetails []map[string]json.RawMessage `json:"reasoning_details"`
	ToolCalls        []callDelta                  `json:"tool_calls"`
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	CacheHit   int64 `json:"prompt_cache_hit_tokens"` // DeepSeek's name

	Cost          float64 `json:"cost"` // OpenRouter's, in dollars
	PromptDetails struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (s *chatStream) Event(name string, data []byte) (bool, error) {
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		s.ended = true
		return true, nil
	}
	var c chunk
	if !lenient(data, &c) {
		return false, provider.Malformed("malformed chunk", data)
	}
	s.note(c)
	if name == "error" || c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return false, parseError(data).failure(0)
	}
	for _, choice := range c.Choices {
		for _, d := range []*delta{choice.Delta, choice.Message} {
			if d == nil {
				continue
			}
			if err := s.take(*d); err != nil {
				return false, err
			}
		}
		if choice.FinishReason != "" {
			s.reason = choice.FinishReason
		}
		break // the request asks for one
	}
	return false, nil
}

// note keeps what a chunk says about the whole response.
func (s *chatStream) note(c chunk) {
	s.reply.ID, s.reply.Model = cmp.Or(c.ID, s.reply.ID), cmp.Or(c.Model, s.reply.Model)
	if u := c.Usage; u != nil {
		s.reply.Usage = content.Usage{
			InputTokens: u.Prompt, OutputTokens: u.Completion, ReasoningTokens: u.CompletionDetails.Reasoning,
			CacheReadTokens: max(u.PromptDetails.Cached, u.CacheHit), CacheWriteTokens: u.PromptDetails.Written,
		}
		if u.Cost > 0 && s.m.origin == openRouter {
			s.reply.Usage.CostMicros, s.reply.Usage.Currency = int64(math.Ceil(u.Cost*1e6)), "USD"
		}
	}
}

// openRouter is the only host known to report the cost of a reply.
const openRouter = "openrouter.ai"

func (s *chatStream) take(d delta) error {
	if err := s.think(d); err != nil {
		return err
	}
	if err := s.appendText(d); err != nil {
		return err
	}
	for _, c := range d.ToolCalls {
		if err := s.call(c); err != nil {
			return err
		}
	}
	return nil
}

// appendText handles the text of a delta.
func (s *chatStream) appendText(d delta) error {
	for _, c := range contents(d.Content) {
		kind, field := content.TextKind, ""
		if c.thought {
			kind = content.ReasoningKind
		}
		if err := s.add(kind, field, c.text); err != nil {
			return err
		}
	}
	if d.Refusal == "" {
		return nil
	}
	s.refused = true
	return s.add(content.TextKind, "", d.Refusal)
}

// add appends to the latest part if it has the kind, otherwise it begins a new part.
func (s *chatStream) add(kind content.PartKind, field, text string) error {
	if text == "" {
		return nil
	}
	_, err := s.grow(kind, field, text)
	return err
}

func (s *chatStream) grow(kind content.PartKind, field, text string) (int, error) {
	p := content.Part{Kind: kind, Text: text}
	if kind == content.ReasoningKind {
		p.Name = Provider
		s.m.mark(&p, func(n *note) { n.Field = field })
	}
	return s.reply.Grow(p)
}

// textPiece is a piece of a message.
type textPiece struct {
	text    string
	thought bool
}

// contents decodes the content of a message: a string, or a list that may contain
// reasoning.
func contents(raw json.RawMessage) []textPiece {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return []textPiece{{text: text}}
	}
	var list []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var all []textPiece
	for _, c := range list {
		if len(c.Thinking) == 0 {
			all = append(all, textPiece{text: c.Text})
			continue
		}
		for _, t := range contents(c.Thinking) {
			all = append(all, textPiece{text: t.text, thought: true})
		}
	}
	return all
}

// Reason translates the server's finish reason. Some servers say "stop" when there are calls, or use
// their own reasons.
func (s *chatStream) Reason() (content.FinishReason, error) {
	if s.reason == "" && !s.ended {
		return "", nil
	}
	if err := s.finishDetails(); err != nil {
		return "", err
	}
	switch strings.ToLower(s.reason) {
	case "length", "max_tokens", "model_length":
		return content.MaxTokens, nil
	case "content_filter", "refusal", "safety":
		return content.Blocked, nil
	case "error", "insufficient_system_resource", "network_error":
		return "", apiError{code: s.reason, message: "the server ended the reply early"}.failure(0)
	}
	if len(s.calls) > 0 {
		return content.ToolCalls, nil
	}
	switch strings.ToLower(s.reason) {
	case "", "stop", "tool_calls", "function_call", "eos", "end_turn", "stop_sequence":
		if s.refused {
			return content.Blocked, nil
		}
		return content.Completed, nil
	}
	return content.Other, nil
}

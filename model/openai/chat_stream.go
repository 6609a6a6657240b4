package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// chatStream makes a reply of the chunks of Chat.
type chatStream struct {
	m     *Model
	reply *provider.Reply

	open      int  // the text or reasoning that grows
	growing   bool // there is one
	calls     []*chatCall
	details   details
	detailsAt int // the part that they belong to

	usage     content.Usage
	reason    string // empty: the server has not said why it ended
	refused   bool
	model, id string
}

// chunk is one event; of a server that does not stream it is the whole answer.
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

// delta is what a message grows by. The fields that servers disagree on are read
// one by one.
type delta struct {
	Content          json.RawMessage   `json:"content"`
	Refusal          string            `json:"refusal"`
	ReasoningContent json.RawMessage   `json:"reasoning_content"`
	Reasoning        json.RawMessage   `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []callDelta       `json:"tool_calls"`
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

func (s *chatStream) event(name string, data []byte) (bool, error) {
	data = bytes.TrimSpace(data)
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return true, nil
	}
	var c chunk
	if !lenient(data, &c) {
		return false, s.m.malformed("a chunk of the stream cannot be read", data)
	}
	s.note(c)
	if name == "error" || c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return false, s.fail(complaintOf(data))
	}
	for _, choice := range c.Choices {
		for _, d := range []*delta{choice.Delta, choice.Message} {
			if d == nil {
				continue
			}
			if err := s.grow(*d); err != nil {
				return false, err
			}
		}
		if choice.FinishReason != "" {
			s.reason = choice.FinishReason
		}
		break // one answer was asked for
	}
	return false, nil
}

// note keeps what a chunk says of the whole.
func (s *chatStream) note(c chunk) {
	if c.ID != "" {
		s.id = c.ID
	}
	if c.Model != "" {
		s.model = c.Model
	}
	if u := c.Usage; u != nil {
		s.usage = content.Usage{
			InputTokens: u.Prompt, OutputTokens: u.Completion, ReasoningTokens: u.CompletionDetails.Reasoning,
			CacheReadTokens: max(u.PromptDetails.Cached, u.CacheHit), CacheWriteTokens: u.PromptDetails.Written,
		}
		if u.Cost > 0 && s.m.origin == openRouter {
			s.usage.CostMicros, s.usage.Currency = int64(math.Ceil(u.Cost*1e6)), "USD"
		}
	}
}

// openRouter is the host of the one server that is known to say what a reply cost.
const openRouter = "openrouter.ai"

func (s *chatStream) fail(c complaint) error {
	e := s.m.failure(0, c)
	e.Usage = s.usage
	return e
}

func (s *chatStream) grow(d delta) error {
	if err := s.think(d); err != nil {
		return err
	}
	if err := s.speak(d); err != nil {
		return err
	}
	for _, c := range d.ToolCalls {
		if err := s.call(c); err != nil {
			return err
		}
	}
	return nil
}

// speak takes a delta's text.
func (s *chatStream) speak(d delta) error {
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

// add lets the text or reasoning grow, and begins one where the other ends.
func (s *chatStream) add(kind content.PartKind, field, text string) error {
	if text == "" {
		return nil
	}
	if s.growing && s.reply.Edit(s.open).Kind == kind {
		return s.reply.Append(s.open, text)
	}
	if err := s.stop(); err != nil {
		return err
	}
	p := content.Part{Kind: kind, Text: text}
	if kind == content.ReasoningKind {
		p.Name = Provider
		s.m.mark(&p, func(n *note) { n.Field = field })
	}
	i, err := s.reply.Begin(p)
	s.open, s.growing = i, true
	return err
}

// stop ends the text or reasoning that grows.
func (s *chatStream) stop() error {
	if !s.growing {
		return nil
	}
	s.growing = false
	return s.reply.Commit(s.open)
}

// said is a piece of what a message holds.
type said struct {
	text    string
	thought bool
}

// contents reads a message's content: a text, or a list in which some servers put
// their reasoning too.
func contents(raw json.RawMessage) []said {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return []said{{text: text}}
	}
	var list []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var all []said
	for _, c := range list {
		if len(c.Thinking) == 0 {
			all = append(all, said{text: c.Text})
			continue
		}
		for _, t := range contents(c.Thinking) {
			all = append(all, said{text: t.text, thought: true})
		}
	}
	return all
}

// end reports whether the server said why it ended: the mark behind that says
// nothing more, and some servers leave it out.
func (s *chatStream) end() bool { return s.reason != "" }

func (s *chatStream) finish() (model.Reply, error) {
	if err := s.finishDetails(); err != nil {
		return model.Reply{}, err
	}
	if err := s.reply.CommitAll(); err != nil {
		return model.Reply{}, err
	}
	finish, err := s.finishReason()
	if err != nil {
		return model.Reply{}, err
	}
	if err := s.reply.Check(finish, s.usage); err != nil {
		return model.Reply{}, err
	}
	return model.Reply{
		Items: s.reply.Items(), Usage: s.usage, FinishReason: finish, Model: s.model, ResponseID: s.id,
	}, nil
}

// finishReason says what the server's word for it means. Some say stop when there
// are calls, or give a word of their own.
func (s *chatStream) finishReason() (content.FinishReason, error) {
	switch strings.ToLower(s.reason) {
	case "length", "max_tokens", "model_length":
		return content.MaxTokens, nil
	case "content_filter", "refusal", "safety":
		return content.Blocked, nil
	case "error", "insufficient_system_resource", "network_error":
		return "", s.fail(complaint{code: s.reason, message: "the server broke off its answer"})
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

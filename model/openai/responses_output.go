package openai

import (
	"encoding/json"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// output is one output item under construction.
type output struct {
	kind  string
	id    string
	phase string
	parts []int // in the reply: one per content of a message, one for any other item
	last  int   // the index of the latest summary or content
	whole bool
}

// outputItem has the relevant fields of all kinds of output items.
type outputItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Phase     string `json:"phase"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// at returns the output with the index, or nil if it has not begun.
func (s *responseStream) at(index int) *output {
	if index < 0 || index >= len(s.outputs) {
		return nil
	}
	return s.outputs[index]
}

// maxOutputs limits indexes.
const maxOutputs = 10_000

// begin adds an item unless it has begun already.
func (s *responseStream) begin(index int, raw json.RawMessage) (*output, error) {
	var it outputItem
	if !lenient(raw, &it) || index < 0 || index > maxOutputs {
		return nil, provider.Malformed("malformed output item", raw)
	}
	if o := s.at(index); o != nil {
		return o, nil
	}
	for len(s.outputs) <= index {
		s.outputs = append(s.outputs, nil)
	}
	o := &output{kind: it.Type, id: it.ID, phase: it.Phase}
	s.outputs[index] = o
	switch it.Type {
	case "message": // its parts begin with their text
		return o, nil
	case "reasoning":
		return o, s.part(o, content.Part{Kind: content.ReasoningKind, Name: Provider})
	case "function_call":
		return o, s.part(o, content.CallPart(content.ToolCall{Name: it.Name, ProviderID: it.CallID}))
	}
	return o, s.part(o, content.Part{Kind: content.CustomKind, Name: customPrefix + it.Type})
}

func (s *responseStream) part(o *output, p content.Part) error {
	s.m.mark(&p, func(n *note) { n.Item = o.id })
	i, err := s.reply.Begin(p)
	o.parts = append(o.parts, i)
	return err
}

// text handles a fragment of a message's text or refusal.
func (s *responseStream) text(e responseEvent) error {
	o, err := s.begin(e.OutputIndex, json.RawMessage(`{"type":"message"}`)) // not all servers send its start
	if err != nil {
		return err
	}
	if o.kind != "message" || e.ContentIndex < 0 || e.ContentIndex > maxOutputs {
		return provider.Malformed("text belongs to no message", []byte(e.Delta))
	}
	i, err := s.content(o, e.ContentIndex, strings.HasPrefix(e.Type, "response.refusal"))
	if err != nil {
		return err
	}
	return s.reply.Append(i, e.Delta)
}

// content returns the part of a message's content, beginning it if necessary.
func (s *responseStream) content(o *output, index int, refusal bool) (int, error) {
	for len(o.parts) <= index {
		if err := s.part(o, content.TextPart("")); err != nil {
			return 0, err
		}
	}
	i := o.parts[index]
	if refusal {
		s.refused = true
		s.m.mark(s.reply.Edit(i), func(n *note) { n.Refusal = true })
	}
	return i, nil
}

// thought handles a fragment of reasoning.
func (s *responseStream) thought(e responseEvent) error {
	o := s.at(e.OutputIndex)
	if o == nil || o.kind != "reasoning" {
		return provider.Malformed("reasoning belongs to no item", []byte(e.Delta))
	}
	piece, index := e.Delta, e.SummaryIndex+e.ContentIndex
	if index != o.last && s.reply.Text(o.parts[0]) != "" {
		piece = "\n\n" + piece
	}
	o.last = index
	return s.reply.Append(o.parts[0], piece)
}

// arguments handles a fragment of a call's arguments.
func (s *responseStream) arguments(e responseEvent) error {
	o := s.at(e.OutputIndex)
	if o == nil || o.kind != "function_call" {
		return provider.Malformed("arguments belong to no call", []byte(e.Delta))
	}
	return s.reply.Append(o.parts[0], e.Delta)
}

// done handles a complete item and appends its remaining text.
func (s *responseStream) done(index int, raw json.RawMessage) error {
	o, err := s.begin(index, raw)
	if err != nil || o.whole {
		return err
	}
	var it outputItem
	if !lenient(raw, &it) || it.Type != o.kind {
		return nil // another item: the final list may omit some
	}
	o.whole = true
	switch o.kind {
	case "message":
		return s.message(o, it)
	case "reasoning":
		s.reply.Edit(o.parts[0]).Reasoning = &content.Reasoning{Encrypted: []byte(raw)}
		return s.rest(o.parts[0], reasoningText(it))
	case "function_call":
		return s.rest(o.parts[0], it.Arguments)
	}
	s.reply.Edit(o.parts[0]).Data = raw
	return s.reply.Commit(o.parts[0])
}

// message completes a message.
func (s *responseStream) message(o *output, it outputItem) error {
	for index, c := range it.Content {
		i, err := s.content(o, index, c.Type == "refusal")
		if err != nil {
			return err
		}
		if err := s.rest(i, c.Text+c.Refusal); err != nil {
			return err
		}
	}
	for _, i := range o.parts {
		s.m.mark(s.reply.Edit(i), func(n *note) { n.Phase = it.Phase })
		if err := s.reply.Commit(i); err != nil {
			return err
		}
	}
	return nil
}

// rest appends the rest of the whole text and commits the part.
func (s *responseStream) rest(i int, whole string) error {
	if missing, ok := strings.CutPrefix(whole, s.reply.Text(i)); ok {
		if err := s.reply.Append(i, missing); err != nil {
			return err
		}
	}
	return s.reply.Commit(i)
}

// reasoningText returns the visible text of reasoning.
func reasoningText(it outputItem) string {
	var texts []string
	for _, t := range it.Summary {
		texts = append(texts, t.Text)
	}
	for _, t := range it.Content {
		texts = append(texts, t.Text)
	}
	return strings.Join(texts, "\n\n")
}

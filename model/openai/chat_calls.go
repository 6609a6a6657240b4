package openai

import (
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// callDelta is what a call grows by.
type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// chatCall is a call that grows.
type chatCall struct {
	index int
	id    string
	part  int
}

// call takes a piece of a call.
func (s *chatStream) call(d callDelta) error {
	if err := s.stop(); err != nil {
		return err
	}
	c := s.which(d)
	if c == nil {
		if d.Function.Name == "" {
			return s.m.malformed("a piece of a call belongs to none that has a name", d.Function.Arguments)
		}
		c = &chatCall{index: len(s.calls), id: d.ID}
		if d.Index != nil {
			c.index = *d.Index
		}
		p := content.CallPart(content.ToolCall{Name: d.Function.Name, ProviderID: d.ID})
		s.m.mark(&p, nil)
		i, err := s.reply.Begin(p)
		if err != nil {
			return err
		}
		c.part = i
		s.calls = append(s.calls, c)
	}
	return s.reply.Append(c.part, argumentsOf(d.Function.Arguments))
}

// which returns the call that a piece belongs to; nil if it begins one. The index
// says so where there is one, except that some servers number all calls 0 and tell
// them apart by their ids. Without an index a name begins a call.
func (s *chatStream) which(d callDelta) *chatCall {
	for _, c := range slices.Backward(s.calls) {
		other := d.Function.Name != "" && d.ID != "" && d.ID != c.id
		switch {
		case d.Index != nil && c.index == *d.Index:
			if other && json.Valid([]byte(s.reply.Text(c.part))) {
				return nil // the one before it under this number is whole
			}
			return c
		case d.Index == nil && d.ID != "" && d.ID == c.id:
			return c
		}
	}
	if d.Index == nil && d.ID == "" && d.Function.Name == "" && len(s.calls) > 0 {
		return s.calls[len(s.calls)-1]
	}
	return nil
}

// argumentsOf reads a piece of arguments: a text, or with some servers the object
// itself.
func argumentsOf(raw json.RawMessage) string { return plain(raw) }

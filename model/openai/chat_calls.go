package openai

import (
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// chatCall is a call under construction.
type chatCall struct {
	index int
	id    string
	part  int
}

// call handles a fragment of a call.
func (s *chatStream) call(d callDelta) error {
	c := s.which(d)
	if c == nil {
		if d.Function.Name == "" {
			return provider.Malformed("a fragment of a call belongs to no call", d.Function.Arguments)
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
	return s.reply.Append(c.part, plain(d.Function.Arguments))
}

// which returns the call that a fragment belongs to, or nil if it begins a call. The
// index decides, except that some servers number all calls 0 and distinguish them by
// id. Without an index, a name begins a call.
func (s *chatStream) which(d callDelta) *chatCall {
	for _, c := range slices.Backward(s.calls) {
		other := d.Function.Name != "" && d.ID != "" && d.ID != c.id
		switch {
		case d.Index != nil && c.index == *d.Index:
			if other && json.Valid([]byte(s.reply.Text(c.part))) {
				return nil // the previous call with this number is complete
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

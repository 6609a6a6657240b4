package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// Reply collects the parts of a streamed reply and emits a delta for each change.
// It is owned by the goroutine that called the model.
//
// Parts begin in the order of the reply; they may grow and be committed in any
// order. After the caller's context has ended, Reply emits nothing and its methods
// return the cause.
//
// The input of a call is always a JSON object. Empty arguments become an empty
// object. Anything else is kept as text in an object, under [InvalidArguments], for
// the record; [Reply.Check] keeps such a call from running.
type Reply struct {
	ctx  context.Context //nolint:containedctx // a Reply lives as long as one call
	emit func(content.Delta)

	parts []growing
}

type growing struct {
	part      content.Part
	text      []byte // text, reasoning or arguments so far
	committed bool
	malformed bool
}

// InvalidArguments is the only field in the input of a call whose arguments are not
// a JSON object. Its value is the text of the arguments.
const InvalidArguments = "invalid_arguments"

// NewReply returns a reply without parts.
func NewReply(ctx context.Context, emit func(content.Delta)) *Reply {
	return &Reply{ctx: ctx, emit: emit}
}

// Begin adds a part and returns its index. Text or arguments that the part has
// already are emitted as its first piece.
func (r *Reply) Begin(p content.Part) (int, error) {
	i := len(r.parts)
	d := content.Delta{Part: i, Op: content.BeginPart, Kind: p.Kind}
	first := p.Text
	p.Text = ""
	if c := p.Call; c != nil {
		call := *c
		first = string(call.Input)
		call.Input = nil
		p.Call = &call
		d.Call = &content.ToolCall{ID: c.ID, Name: c.Name, ProviderID: c.ProviderID}
	}
	r.parts = append(r.parts, growing{part: p})
	if err := r.send(d); err != nil {
		return i, err
	}
	return i, r.Append(i, first)
}

// Append adds to the text of a part, or to the arguments of a call.
func (r *Reply) Append(i int, text string) error {
	if text == "" {
		return context.Cause(r.ctx)
	}
	g := &r.parts[i]
	g.text = append(g.text, text...)
	return r.send(content.Delta{Part: i, Op: content.AppendPart, Kind: g.part.Kind, Text: text})
}

// Edit returns a part so that the caller can change fields without deltas, such as
// metadata, signatures and data. Commit sets its text and arguments.
func (r *Reply) Edit(i int) *content.Part { return &r.parts[i].part }

// Text returns the text or arguments of a part so far.
func (r *Reply) Text(i int) string { return string(r.parts[i].text) }

// Commit ends a part. Committing it again does nothing.
func (r *Reply) Commit(i int) error {
	g := &r.parts[i]
	if g.committed {
		return context.Cause(r.ctx)
	}
	g.committed = true
	d := content.Delta{Part: i, Op: content.CommitPart, Kind: g.part.Kind}
	if c := g.part.Call; c != nil {
		c.Input, g.malformed = object(g.text)
		call := *c
		d.Call = &call
	} else {
		g.part.Text = string(g.text)
	}
	return r.send(d)
}

// CommitAll commits all open parts, in order.
func (r *Reply) CommitAll() error {
	for i := range r.parts {
		if err := r.Commit(i); err != nil {
			return err
		}
	}
	return context.Cause(r.ctx)
}

// Len returns the number of parts.
func (r *Reply) Len() int { return len(r.parts) }

// HasCalls reports whether a part is a tool call.
func (r *Reply) HasCalls() bool {
	return slices.ContainsFunc(r.parts, func(g growing) bool { return g.part.Call != nil })
}

// Items returns the committed parts as one Assistant item, or nil if there are no
// parts.
func (r *Reply) Items() []content.Item {
	if len(r.parts) == 0 {
		return nil
	}
	parts := make([]content.Part, len(r.parts))
	for i, g := range r.parts {
		parts[i] = g.part
	}
	return []content.Item{content.NewItem(content.Assistant, parts...)}
}

// Check returns an error if the finish reason says that calls run and the arguments
// of one are malformed. Another attempt may succeed. A reply that a limit cut off
// may end in a malformed call, which does not run.
func (r *Reply) Check(finish content.FinishReason, usage content.Usage) error {
	if finish != content.ToolCalls {
		return nil
	}
	for _, g := range r.parts {
		if g.malformed {
			return &model.Error{
				Class: content.ClassServer, Code: InvalidArguments, Usage: usage,
				Message: fmt.Sprintf("the arguments of the call of %s are not a JSON object", g.part.Call.Name),
			}
		}
	}
	return nil
}

// object returns arguments as a JSON object and reports whether they are malformed.
func object(args []byte) (json.RawMessage, bool) {
	switch text := bytes.TrimSpace(args); {
	case len(text) == 0, string(text) == "null":
		return json.RawMessage("{}"), false
	case text[0] == '{' && json.Valid(text):
		return args, false
	}
	wrapped, err := json.Marshal(map[string]string{InvalidArguments: string(args)})
	if err != nil {
		return json.RawMessage("{}"), true // impossible for strings
	}
	return wrapped, true
}

func (r *Reply) send(d content.Delta) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.emit(d)
	return context.Cause(r.ctx)
}

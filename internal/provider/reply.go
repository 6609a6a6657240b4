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
// The input of a call is always a JSON object: empty arguments become an empty object,
// and others are kept as text under invalid_arguments.
type Reply struct {
	Usage     content.Usage // so far
	Model, ID string        // according to the provider

	ctx  context.Context //nolint:containedctx // a Reply lives as long as one call
	emit func(content.Delta)

	parts   []part
	growing int // index of the part to which Grow appends; -1: none
	size    int // of all parts
}

type part struct {
	part      content.Part
	text      []byte // text, reasoning or arguments so far
	committed bool
	malformed bool
}

// invalidArguments is the only field in the input of a call whose arguments are not
// a JSON object. Its value is the text of the arguments.
const invalidArguments = "invalid_arguments"

// NewReply returns a reply without parts.
func NewReply(ctx context.Context, emit func(content.Delta)) *Reply {
	return &Reply{ctx: ctx, emit: emit, growing: -1}
}

// Grow appends the text of p to the latest part if Grow began that part and it has the
// same kind. Otherwise it begins p. It returns the index of the part.
func (r *Reply) Grow(p content.Part) (int, error) {
	if i := r.growing; i >= 0 && r.parts[i].part.Kind == p.Kind {
		return i, r.Append(i, p.Text)
	}
	i, err := r.Begin(p)
	r.growing = i
	return i, err
}

// Begin adds a part and returns its index. Text or arguments that the part already has are
// emitted as its first piece. A part that Grow began ends.
func (r *Reply) Begin(p content.Part) (int, error) {
	if i := r.growing; i >= 0 {
		r.growing = -1
		if err := r.Commit(i); err != nil {
			return i, err
		}
	}
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
	r.parts = append(r.parts, part{part: p})
	if err := r.grown(partSize); err != nil {
		return i, err
	}
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
	if err := r.grown(len(text)); err != nil {
		return err
	}
	g := &r.parts[i]
	g.text = append(g.text, text...)
	return r.send(content.Delta{Part: i, Op: content.AppendPart, Kind: g.part.Kind, Text: text})
}

// partSize is what a part counts in addition to its text: approximately the memory that it takes.
const partSize = 512

// grown counts what was added and ends an endless reply.
func (r *Reply) grown(n int) error {
	if r.size += n; r.size > maxReply {
		return endless()
	}
	return nil
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

// finish commits all open parts, in order, and returns the complete reply. It returns
// an error if calls are to run and the arguments of one are malformed: another attempt
// may succeed. A reply that a limit cut off may end in a malformed call, which does not
// run.
func (r *Reply) finish(reason content.FinishReason) (model.Reply, error) {
	reply := model.Reply{Usage: r.Usage, FinishReason: reason, Model: r.Model, ResponseID: r.ID}
	item := content.Item{Kind: content.Assistant}
	for i := range r.parts {
		if err := r.Commit(i); err != nil {
			return model.Reply{}, err
		}
		g := r.parts[i]
		if g.malformed && reason == content.ToolCalls {
			return model.Reply{}, &model.Error{
				Class: content.ClassServer, Code: invalidArguments,
				Message: fmt.Sprintf("the arguments of the call of %s are not a JSON object", g.part.Call.Name),
			}
		}
		item.Parts = append(item.Parts, g.part)
	}
	if len(item.Parts) > 0 {
		reply.Items = []content.Item{item}
	}
	return reply, context.Cause(r.ctx)
}

// Len returns the number of parts.
func (r *Reply) Len() int { return len(r.parts) }

// HasCalls reports whether a part is a tool call.
func (r *Reply) HasCalls() bool {
	return slices.ContainsFunc(r.parts, func(g part) bool { return g.part.Call != nil })
}

// object returns arguments as a JSON object and reports whether they are malformed.
func object(args []byte) (json.RawMessage, bool) {
	switch text := bytes.TrimSpace(args); {
	case len(text) == 0, string(text) == "null":
		return json.RawMessage("{}"), false
	case text[0] == '{' && json.Valid(text):
		return args, false
	}
	wrapped, err := json.Marshal(map[string]string{invalidArguments: string(args)})
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

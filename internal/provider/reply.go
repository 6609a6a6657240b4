package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// Reply gathers the parts of an answer while it streams, and tells of each change
// as a delta. It is owned by the goroutine that called the model.
//
// Parts are begun in the order in which the reply will hold them; they may grow
// and be committed in any. When the caller's context has ended, nothing is told
// any more and every method returns the cause.
//
// A call gets one JSON object as its input, always: no arguments are an empty
// object, and arguments that are none stand in one under [InvalidArguments], as
// they came. Such a call is for the record; [Reply.Check] keeps it from being run.
type Reply struct {
	ctx  context.Context //nolint:containedctx // it is the one call that this value lives in
	emit func(content.Delta)

	parts []growing
}

type growing struct {
	part      content.Part
	text      []byte // of a text or reasoning, or the arguments of a call so far
	committed bool
	malformed bool
}

// InvalidArguments is the one name in the input of a call whose arguments were no
// JSON object; its value is their text.
const InvalidArguments = "invalid_arguments"

// NewReply returns a reply without parts.
func NewReply(ctx context.Context, emit func(content.Delta)) *Reply {
	return &Reply{ctx: ctx, emit: emit}
}

// Begin adds a part and returns its index. The text and the arguments that the
// part has already are told as its first piece.
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
	if err := r.tell(d); err != nil {
		return i, err
	}
	return i, r.Append(i, first)
}

// Append adds text to a text or reasoning, or a fragment to a call's arguments.
func (r *Reply) Append(i int, text string) error {
	if text == "" {
		return context.Cause(r.ctx)
	}
	g := &r.parts[i]
	g.text = append(g.text, text...)
	return r.tell(content.Delta{Part: i, Op: content.AppendPart, Kind: g.part.Kind, Text: text})
}

// Edit returns the part for changes to what no delta tells: metadata, signatures,
// data. Its text and arguments are set by the part's commit.
func (r *Reply) Edit(i int) *content.Part { return &r.parts[i].part }

// Text returns the text or the arguments that the part has so far.
func (r *Reply) Text(i int) string { return string(r.parts[i].text) }

// Commit ends a part. A second commit of it does nothing.
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
	return r.tell(d)
}

// CommitAll ends the parts that are still open, in order.
func (r *Reply) CommitAll() error {
	for i := range r.parts {
		if err := r.Commit(i); err != nil {
			return err
		}
	}
	return context.Cause(r.ctx)
}

// Len is how many parts have begun.
func (r *Reply) Len() int { return len(r.parts) }

// Items returns the reply as one Assistant item; none if nothing has begun. The
// parts must be committed.
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

// Check returns an error if the reply means to run calls, by how it finishes, and
// one of them is malformed. Another attempt may do better; this one is paid for.
// A reply that was cut off by a limit may end in such a call: it is not run.
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

// object returns arguments as a JSON object, and whether they were none.
func object(args []byte) (json.RawMessage, bool) {
	switch text := bytes.TrimSpace(args); {
	case len(text) == 0, string(text) == "null":
		return json.RawMessage("{}"), false
	case text[0] == '{' && json.Valid(text):
		return args, false
	}
	wrapped, err := json.Marshal(map[string]string{InvalidArguments: string(args)})
	if err != nil {
		return json.RawMessage("{}"), true // not reached: text is always JSON
	}
	return wrapped, true
}

func (r *Reply) tell(d content.Delta) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.emit(d)
	return context.Cause(r.ctx)
}

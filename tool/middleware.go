package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
)

// Handler runs a call: a tool's Call, perhaps inside [Middleware].
type Handler func(ctx context.Context, c Call) (Output, error)

// Middleware wraps a tool's calls. It may change the call or the output, return
// without calling next, or return an error as a tool may. If it changes the input,
// that is checked against the schema again. It never sees a call with invalid input
// or of a tool that is not offered.
type Middleware func(ctx context.Context, c Call, next Handler) (Output, error)

// Wrap returns t with middleware around its calls, the first outermost. Models and
// permissions see no difference.
func Wrap(t Tool, around ...Middleware) Tool {
	if len(around) == 0 {
		return t
	}
	inner, _ := Compile(t) // an invalid schema fails each call
	return &wrapped{Tool: inner, compiler: inner.(compiler), around: slices.Clone(around)}
}

// WrapSource returns s with middleware around all of its tools, outside of any
// middleware that they already have.
func WrapSource(s Source, around ...Middleware) Source {
	if len(around) == 0 {
		return s
	}
	return derived{s, func(tools []Tool) ([]Tool, error) {
		out := make([]Tool, len(tools))
		for i, t := range tools {
			out[i] = Wrap(t, around...)
		}
		return out, nil
	}}
}

// wrapped is a tool with its middleware.
type wrapped struct {
	Tool
	compiler
	around []Middleware
}

// Call runs the middleware from the outside in, and then the tool.
func (w *wrapped) Call(ctx context.Context, c Call) (Output, error) {
	if c.Progress == nil {
		c.Progress = func(string, float64) {}
	}
	return w.handler(0, bytes.Clone(c.Input))(ctx, c)
}

// handler starts at the i-th middleware. checked is the input that is known to be
// valid.
func (w *wrapped) handler(i int, checked json.RawMessage) Handler {
	if i < len(w.around) {
		next := w.handler(i+1, checked)
		return func(ctx context.Context, c Call) (Output, error) { return w.around[i](ctx, c, next) }
	}
	return func(ctx context.Context, c Call) (Output, error) {
		if !bytes.Equal(c.Input, checked) {
			if err := w.validate(c.Input); err != nil {
				return Output{}, err
			}
		}
		return w.Tool.Call(ctx, c)
	}
}

// Propose asks the tool.
func (w *wrapped) Propose(ctx context.Context, c Call) ([]Request, error) {
	return w.Tool.(Proposer).Propose(ctx, c) // every compiled tool is one
}

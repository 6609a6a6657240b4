package tool

import (
	"bytes"
	"context"
	"slices"
)

// Handler runs a call: a tool's Call, perhaps inside [Middleware].
type Handler func(ctx context.Context, c Call) (Output, error)

// Middleware wraps a tool's calls. It may change the call or the output, return
// without calling next, or return an error as a tool may. If it changes the input,
// that is checked against the schema again. It never sees a call with invalid input
// or of a tool that is not offered.
type Middleware func(ctx context.Context, c Call, next Handler) (Output, error)

// Wrap returns t with middleware around its calls. The first one is outermost. Models and permissions
// see no difference.
func Wrap(t Tool, around ...Middleware) Tool {
	if len(around) == 0 {
		return t
	}
	inner, around := compile(t), slices.Clone(around) // an invalid schema fails each call
	outer := *inner
	outer.call = func(ctx context.Context, c Call) (Output, error) {
		if c.Progress == nil {
			c.Progress = func(string, float64) {}
		}
		valid := bytes.Clone(c.Input)
		next := func(ctx context.Context, c Call) (Output, error) {
			if !bytes.Equal(c.Input, valid) {
				if err := Validate(inner, c.Input); err != nil {
					return Output{}, err
				}
			}
			return inner.call(ctx, c)
		}
		for _, m := range slices.Backward(around) {
			within := next
			next = func(ctx context.Context, c Call) (Output, error) { return m(ctx, c, within) }
		}
		return next(ctx, c)
	}
	return &outer
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

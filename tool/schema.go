package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/schema"
)

// compiled is a tool with its spec, which is read only once, values computed from the spec, and the
// functions that run the tool. Tools of other kinds are compiled before their input is checked, so no
// tool can bypass the check.
type compiled struct {
	spec     Spec
	declared Spec // what the tool itself declares
	digest   string
	slot     chan struct{} // holds the one call at a time of an exclusive tool, or nil
	schema   *schema.Schema
	err      error // why there is no schema

	call    Handler
	propose func(ctx context.Context, c Call) ([]Request, error)
}

// Compile returns t with its spec read, its input schema compiled and its digest computed. Tools from
// [Func] and tools in a [Registry] are compiled already and are returned unchanged. Compile returns an
// error if the schema is invalid; every call of the returned tool then fails with that error.
func Compile(t Tool) (Tool, error) {
	c := compile(t)
	return c, c.err
}

func compile(t Tool) *compiled {
	if c, ok := t.(*compiled); ok {
		return c
	}
	c := compileSpec(t.Spec())
	c.call = t.Call
	if p, ok := t.(Proposer); ok {
		c.propose = p.Propose
	} else {
		c.propose = func(_ context.Context, call Call) ([]Request, error) { return []Request{RequestFor(c.spec, call)}, nil }
	}
	return c
}

func compileSpec(spec Spec) *compiled {
	c := &compiled{spec: spec, declared: spec, digest: SpecDigest(spec)}
	if spec.Exclusive {
		c.slot = make(chan struct{}, 1)
	}
	if c.schema, c.err = inputSchema(spec.InputSchema); c.err != nil {
		c.err = fmt.Errorf("tool %s: input schema: %w", spec.Name, c.err)
	}
	return c
}

// Spec returns the spec that the tool had when it was compiled.
func (t *compiled) Spec() Spec { return t.spec }

// Call runs the tool.
func (t *compiled) Call(ctx context.Context, c Call) (Output, error) { return t.call(ctx, c) }

// Propose calls the tool's Propose. A tool that is not a [Proposer] makes one request without a kind.
func (t *compiled) Propose(ctx context.Context, c Call) ([]Request, error) { return t.propose(ctx, c) }

// MaxInput is the size of the largest arguments of a call, in bytes.
const MaxInput = 16 << 20

// Validate checks a call's input against t's schema. Empty input counts as {}. It
// returns an [*Error] with [CodeInvalidArguments] that names every field that does
// not fit, for the model to correct.
func Validate(t Tool, input json.RawMessage) error {
	c := compile(t)
	if c.err != nil {
		return c.err
	}
	if len(input) > MaxInput {
		return invalid(fmt.Sprintf("%d bytes, at most %d MiB: pass the name of a file instead", len(input), MaxInput>>20))
	}
	var v any
	if err := schema.CheckJSON(input); err != nil {
		return invalid(err.Error())
	}
	if err := json.Unmarshal(orEmpty(input), &v); err != nil {
		return invalid("not valid JSON: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := c.schema.Check(v); err != nil {
		return invalid(content.Clip(err.Error(), 2000))
	}
	return nil
}

// inputSchema compiles the schema of an input, which is always an object.
func inputSchema(raw json.RawMessage) (*schema.Schema, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	s, err := schema.Compile(raw)
	if err == nil && !s.AllowsObjects() {
		err = errors.New("the schema must describe an object")
	}
	return s, err
}

// RequestFor returns the request for a call as a whole, without a kind.
func RequestFor(spec Spec, c Call) Request {
	return Request{
		Session: c.Session,
		Call:    content.ToolCall{ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input},
		Spec:    spec,
	}
}

const invalidPrefix = "Invalid arguments: "

func invalid(text string) error {
	return &Error{Code: CodeInvalidArguments, Message: invalidPrefix + text}
}

// orEmpty replaces empty input and null, which models send when a tool needs no
// arguments, with {}.
func orEmpty(input json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(input); len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage("{}")
	}
	return input
}

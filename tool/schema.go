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

// Compile returns t with its spec read once, its input schema compiled and its
// digest computed. Tools made by [Func] and tools in a [Registry] are compiled
// already and are returned as they are. It returns an error if the schema is
// invalid; every call of the returned tool then fails with that error.
func Compile(t Tool) (Tool, error) {
	if _, ok := t.(compiler); ok {
		return t, nil
	}
	c := compile(t)
	return c, c.err
}

// Validate checks a call's input against t's schema. Empty input counts as {}. It
// returns an [*Error] with [CodeInvalidArguments] that names every field that does
// not fit, for the model to correct.
func Validate(t Tool, input json.RawMessage) error {
	c, ok := t.(compiler)
	if !ok {
		c = compile(t)
	}
	return c.validate(input)
}

// compiler is what all compiled tools implement. It is sealed, so that a tool
// cannot bypass the check of its input.
type compiler interface {
	validate(input json.RawMessage) error
	digest() string
	slot() chan struct{} // holds the one call at a time of an exclusive tool, or nil
}

// checked is a spec with what is computed from it.
type checked struct {
	spec      Spec
	sum       string
	exclusive chan struct{}
	schema    *schema.Schema
	err       error // why there is no schema
}

func check(spec Spec) checked {
	c := checked{spec: spec, sum: SpecDigest(spec)}
	if spec.Exclusive {
		c.exclusive = make(chan struct{}, 1)
	}
	if c.schema, c.err = inputSchema(spec.InputSchema); c.err != nil {
		c.err = fmt.Errorf("tool %s: input schema: %w", spec.Name, c.err)
	}
	return c
}

func (c *checked) Spec() Spec { return c.spec }

func (c *checked) digest() string { return c.sum }

func (c *checked) slot() chan struct{} { return c.exclusive }

func (c *checked) validate(input json.RawMessage) error {
	if c.err != nil {
		return c.err
	}
	var v any
	if err := json.Unmarshal(orEmpty(input), &v); err != nil {
		return invalid("not valid JSON: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := c.schema.Check(v); err != nil {
		return invalid(clipText(err.Error(), 2000))
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
		err = errors.New("it must describe an object")
	}
	return s, err
}

// compiled wraps a tool of any other kind.
type compiled struct {
	checked
	Tool
}

func compile(t Tool) *compiled { return &compiled{checked: check(t.Spec()), Tool: t} }

// Spec returns the spec that the tool had when it was compiled.
func (c *compiled) Spec() Spec { return c.spec }

// Propose asks the tool. A tool that is no [Proposer] makes one request without a kind.
func (c *compiled) Propose(ctx context.Context, call Call) ([]Request, error) {
	if p, ok := c.Tool.(Proposer); ok {
		return p.Propose(ctx, call)
	}
	return []Request{RequestFor(c.spec, call)}, nil
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

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
)

// Compile returns t with what is otherwise computed per call: its spec is taken
// once, its schema compiled and its digest known. Tools made by [Func] and tools
// in a [Registry] are compiled already and returned as they are. It returns an
// error if the schema cannot be used; the tool cannot be called then.
func Compile(t Tool) (Tool, error) {
	if _, ok := t.(compiler); ok {
		return t, nil
	}
	c := compile(t)
	return c, c.err
}

// Validate checks a call's input against t's schema. Input that does not fit
// gives an [*Error] with [CodeInvalidArguments] whose text names every field that
// is wrong, for the model to correct; no input counts as {}.
func Validate(t Tool, input json.RawMessage) error {
	c, ok := t.(compiler)
	if !ok {
		c = compile(t)
	}
	return c.validate(input)
}

// compiler is what compiled tools have in common. It is sealed, so that a tool
// cannot talk its way around the check of its input.
type compiler interface {
	validate(input json.RawMessage) error
	digest() string
	door() chan struct{}
}

// checked is the part of a compiled tool that does not depend on how it runs.
type checked struct {
	spec   Spec
	schema *schema
	sum    string
	err    error         // why there is no schema
	single chan struct{} // room for the one call at a time; nil: for any number
}

func check(spec Spec) checked {
	c := checked{spec: spec, sum: SpecDigest(spec)}
	if spec.Exclusive {
		c.single = make(chan struct{}, 1)
	}
	if c.schema, c.err = parseSchema(spec.InputSchema); c.err != nil {
		c.err = fmt.Errorf("tool %s: input schema: %w", spec.Name, c.err)
	}
	return c
}

func (c *checked) Spec() Spec { return c.spec }

func (c *checked) digest() string { return c.sum }

func (c *checked) door() chan struct{} { return c.single }

func (c *checked) validate(input json.RawMessage) error {
	if c.err != nil {
		return c.err
	}
	return c.schema.validate(input)
}

// compiled makes any tool a compiled one.
type compiled struct {
	checked
	Tool
}

func compile(t Tool) *compiled { return &compiled{checked: check(t.Spec()), Tool: t} }

// Spec returns the spec that the tool had when it was compiled.
func (c *compiled) Spec() Spec { return c.spec }

// Propose passes the question on; it makes one request with no kind for a tool
// that is not asked.
func (c *compiled) Propose(ctx context.Context, call Call) ([]Request, error) {
	if p, ok := c.Tool.(Proposer); ok {
		return p.Propose(ctx, call)
	}
	return []Request{RequestFor(c.spec, call)}, nil
}

// RequestFor returns the request for a call as such, without a kind.
func RequestFor(spec Spec, c Call) Request {
	return Request{
		Session: c.Session,
		Call:    content.ToolCall{ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input},
		Spec:    spec,
	}
}

// schema is a compiled input schema.
type schema struct {
	places   *places
	resolved *jsonschema.Resolved
}

// parseSchema compiles the schema of an input, which is always an object.
func parseSchema(raw json.RawMessage) (*schema, error) {
	root := &jsonschema.Schema{Type: "object"}
	if len(bytes.TrimSpace(raw)) > 0 {
		root = new(jsonschema.Schema)
		if err := json.Unmarshal(raw, root); err != nil {
			return nil, err //nolint:wrapcheck // check wraps it
		}
	}
	if root.Type != "object" && !slices.Contains(root.Types, "object") && (root.Type != "" || root.Types != nil) {
		return nil, errors.New("it must describe an object")
	}
	if root.Schema != "" && !strings.Contains(root.Schema, "/draft-07/") {
		root.Schema = "" // judged by the latest draft, instead of not at all
	}
	places, err := survey(root)
	if err != nil {
		return nil, err
	}
	resolved, err := root.Resolve(nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // check wraps it
	}
	return &schema{places: places, resolved: resolved}, nil
}

// validate judges by the library and explains by a walk of our own: the library
// stops at the first violation, in random order, and names the place in the
// schema instead of that in the input.
func (s *schema) validate(input json.RawMessage) error {
	var v any
	if err := json.Unmarshal(orEmpty(input), &v); err != nil {
		return invalid("they are not valid JSON: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	err := s.resolved.Validate(v)
	if err == nil {
		return nil
	}
	problems := explain(s.places, v)
	if len(problems) == 0 {
		text := strings.TrimPrefix(err.Error(), "validating root: ")
		problems = []string{clipText(text, 1000)}
	}
	return invalid(strings.Join(problems, "; "))
}

const invalidPrefix = "Invalid arguments: "

func invalid(text string) error {
	return &Error{Code: CodeInvalidArguments, Message: invalidPrefix + text}
}

// orEmpty makes no input the empty object: models leave the input out, or send
// null, when there is nothing to say.
func orEmpty(input json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(input); len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage("{}")
	}
	return input
}

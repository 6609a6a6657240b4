package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/gowebpki/jcs"

	"github.com/turnlog/turnlog/content"
)

// Describer is an input type that describes what a call with it does, for
// [Permissions]: a kind such as filesystem.write, a summary for people, and a target
// that is encoded as JSON.
type Describer interface {
	// Describe returns the kind, the summary and the target of the call.
	Describe() (kind, summary string, target any)
}

// Func makes a tool from a function. The input schema is inferred from In, a struct
// or a map: json tags name the fields, jsonschema tags describe them, and fields are
// required unless tagged omitempty or omitzero. The function's result becomes the
// output: a string is one text part, an [Output] is used as is, and anything else is
// one structured part, whose schema is inferred too. It returns an error if the
// name, the description or a type cannot be used.
func Func[In, Out any](
	name, description string, f func(ctx context.Context, in In) (Out, error), opts ...Option,
) (Tool, error) {
	return CallFunc(name, description, func(ctx context.Context, _ Call, in In) (Out, error) { return f(ctx, in) }, opts...)
}

// CallFunc is [Func] for a function that also needs its call: the idempotency key,
// the host's resources, or a way to report progress.
func CallFunc[In, Out any](
	name, description string, f func(ctx context.Context, c Call, in In) (Out, error), opts ...Option,
) (Tool, error) {
	d, err := define[In, Out](name, description, opts)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	t := compileSpec(d.spec)
	t.call = func(ctx context.Context, c Call) (Output, error) {
		in, err := read[In](c.Input)
		if err != nil {
			return Output{}, err
		}
		if c.Progress == nil {
			c.Progress = func(string, float64) {}
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return Output{}, err
		}
		return write(out)
	}
	t.propose = func(_ context.Context, c Call) ([]Request, error) {
		in, err := read[In](c.Input)
		if err != nil {
			return nil, err
		}
		return describe(RequestFor(t.spec, c), in)
	}
	return t, t.err
}

// describe completes a request if the input is a [Describer].
func describe(r Request, in any) ([]Request, error) {
	if d, ok := in.(Describer); ok {
		var target any
		var err error
		r.Kind, r.Summary, target = d.Describe()
		if r.Target, err = json.Marshal(target); err != nil {
			return nil, fmt.Errorf("propose %s: target: %w", r.Spec.Name, err)
		}
	}
	return []Request{r}, nil
}

// Option configures [Func].
type Option func(*definition)

// ReadOnly declares that the tool changes nothing.
func ReadOnly() Option { return WithSpec(func(s *Spec) { s.Effects = content.ReadOnly }) }

// Idempotent declares that running a call twice has the effect of running it once.
func Idempotent() Option { return WithSpec(func(s *Spec) { s.Effects = content.Idempotent }) }

// WithSpec edits the spec: effects, timeout, route and so on.
func WithSpec(edit func(s *Spec)) Option { return func(d *definition) { edit(&d.spec) } }

// WithSchema edits the inferred input schema, to add what types cannot express, such
// as bounds and patterns.
func WithSchema(edit func(s *jsonschema.Schema)) Option { return func(d *definition) { edit(d.input) } }

// Without leaves optional fields out of the inferred input schema.
func Without(fields ...string) Option {
	return WithSchema(func(s *jsonschema.Schema) {
		for _, f := range fields {
			delete(s.Properties, f)
		}
		s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(f string) bool { return slices.Contains(fields, f) })
	})
}

type definition struct {
	spec  Spec
	input *jsonschema.Schema
}

func define[In, Out any](name, description string, opts []Option) (definition, error) {
	d := definition{spec: Spec{Name: name, Description: description}}
	if strings.TrimSpace(description) == "" {
		return d, errors.New("no description: tell the model what it does and when to use it")
	}
	var err error
	if d.input, err = inferInput[In](); err != nil {
		return d, err
	}
	if d.spec.OutputSchema, err = inferOutput[Out](); err != nil {
		return d, err
	}
	for _, opt := range opts {
		opt(&d)
	}
	if err := checkName(d.spec.Name); err != nil {
		return d, err
	}
	if d.spec.InputSchema, err = json.Marshal(d.input); err != nil {
		return d, fmt.Errorf("input schema: %w", err)
	}
	return d, nil
}

func inferInput[In any]() (*jsonschema.Schema, error) {
	switch t := reflect.TypeFor[In](); t.Kind() {
	case reflect.Struct, reflect.Map:
	default:
		return nil, fmt.Errorf("input type %s: use a struct or a map", t)
	}
	s, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("input type: %w", err)
	}
	withoutNull(s)
	return s, nil
}

// withoutNull drops null from the types of slices and pointers. Go can read it,
// but a model has no reason to send it, and some providers reject such types.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
	withoutNull(s.Items)
	withoutNull(s.AdditionalProperties)
}

// inferOutput infers the schema of structured output. It returns none for a type
// without a schema, such as one that contains itself.
func inferOutput[Out any]() (json.RawMessage, error) {
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[string](), reflect.TypeFor[Output](), reflect.TypeFor[any]():
		return nil, nil
	}
	s, err := jsonschema.For[Out](&jsonschema.ForOptions{IgnoreInvalidTypes: true})
	if err != nil || s == nil {
		return nil, nil //nolint:nilerr // an output needs no schema
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	return raw, nil
}

// read decodes an input. Models write whole numbers as 3.0 or 3e2, which are integers
// to the schema but not to encoding/json; the canonical form is 3.
func read[In any](input json.RawMessage) (In, error) {
	var in In
	err := json.Unmarshal(orEmpty(input), &in)
	if err == nil {
		return in, nil
	}
	if canonical, jcsErr := jcs.Transform(input); jcsErr == nil {
		var again In
		if json.Unmarshal(canonical, &again) == nil {
			return again, nil
		}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return in, invalid(fmt.Sprintf("%s: is a JSON %s, want a Go %s", e.Field, e.Value, e.Type))
	}
	return in, invalid(err.Error())
}

func write(v any) (Output, error) {
	switch v := v.(type) {
	case string:
		return Text(v), nil
	case Output:
		return v, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return Output{}, fmt.Errorf("write the result: %w", err)
	}
	return Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
}

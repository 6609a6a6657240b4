// Package schema checks JSON values against JSON schemas and names every place
// that does not fit.
//
// Schemas come from anywhere, so nothing is fetched: a reference stays within its
// schema or names a published draft. A schema that applies itself without end is
// an error, not a stack overflow. Formats are annotations and are not checked.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Compile parses a schema and checks it against its draft. A schema that names no
// published draft is one of 2020-12, or of 2019-09 if only that allows it: many
// that describe tuples are.
func Compile(raw []byte) (*Schema, error) {
	var doc any // a json.Number could have an exponent of any size
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if root, ok := doc.(map[string]any); ok {
		if draft, _ := root["$schema"].(string); !strings.Contains(draft, "//json-schema.org/draft") {
			delete(root, "$schema")
		}
	}
	s, err := compile(doc, jsonschema.Draft2020)
	if err != nil {
		if older, olderErr := compile(doc, jsonschema.Draft2019); olderErr == nil {
			return older, nil
		}
	}
	return s, err
}

func compile(doc any, draft *jsonschema.Draft) (*Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(nil)
	for _, name := range []string{
		"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
		"period", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
	} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	const root = "schema:root"
	if err := c.AddResource(root, doc); err != nil {
		return nil, err //nolint:wrapcheck // callers name the schema
	}
	compiled, err := c.Compile(root)
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return nil, explain(e.Err)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // callers name the schema
	}
	for e := range leaves(compiled.Validate(map[string]any{})) {
		if _, ok := e.ErrorKind.(*kind.RefCycle); ok {
			return nil, errors.New("it refers to itself without end")
		}
	}
	return &Schema{compiled}, nil
}

// AllowsObjects reports whether an object can fit the schema, by its type alone.
func (s *Schema) AllowsObjects() bool {
	types := s.compiled.Types
	return types == nil || types.IsEmpty() || slices.Contains(types.ToStrings(), "object")
}

// Check returns an error that names what in v does not fit, for a v as
// [json.Unmarshal] makes it.
func (s *Schema) Check(v any) error {
	if err := s.compiled.Validate(v); err != nil {
		return explain(err)
	}
	return nil
}

// maxProblems is how many problems an error names. More would bury the first.
const maxProblems = 5

// explain turns the library's tree of errors into one line: its leaves, in an
// order that depends only on their text.
func explain(err error) error {
	english := message.NewPrinter(language.English)
	var problems []string
	for e := range leaves(err) {
		if k, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			slices.Sort(k.Properties)
		}
		text := e.ErrorKind.LocalizedString(english)
		if len(e.InstanceLocation) > 0 {
			text = strings.Join(e.InstanceLocation, ".") + ": " + text
		}
		problems = append(problems, text)
	}
	slices.Sort(problems)
	problems = slices.Compact(problems)
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(problems, "; "))
}

// leaves yields the errors in a tree that have no causes.
func leaves(err error) iter.Seq[*jsonschema.ValidationError] {
	return func(yield func(*jsonschema.ValidationError) bool) {
		var visit func(e *jsonschema.ValidationError) bool
		visit = func(e *jsonschema.ValidationError) bool {
			for _, cause := range e.Causes {
				if !visit(cause) {
					return false
				}
			}
			return len(e.Causes) > 0 || yield(e)
		}
		if root, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			visit(root)
		}
	}
}

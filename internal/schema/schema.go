// Package schema checks JSON values against JSON schemas and names every place
// that does not fit.
//
// Schemas are untrusted, so nothing is fetched: a reference stays within its schema or
// names a published draft. A schema that applies itself without end is an error, not a
// stack overflow. The number of steps of a check is limited, because a few references
// that each double the work could make it take years. Formats are annotations and are
// not checked.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema

	mu    sync.Mutex // guards steps: one check at a time
	steps *budget
}

// The bounds of schemas. Schemas of tools need about a hundredth of them.
const (
	maxSize    = 256 << 10 // bytes of a schema
	maxSteps   = 300_000   // schemas that a check applies to values
	maxPattern = 1000      // bytes of a regular expression
)

var (
	errSize    = fmt.Errorf("a schema has at most %d KiB", maxSize>>10)
	errSteps   = fmt.Errorf("checking takes more than %d steps: use fewer alternatives and references", maxSteps)
	errPattern = fmt.Errorf("a pattern has at most %d bytes", maxPattern)
)

// Compile parses a schema and checks it against its draft. The default draft is 2020-12, or
// 2019-09 if only that allows the schema, as for many schemas that describe tuples.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > maxSize {
		return nil, errSize
	}
	if err := CheckJSON(raw); err != nil {
		return nil, err
	}
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

// compile compiles a schema twice, because the library checks a schema less strictly against its draft
// when it counts steps.
func compile(doc any, draft *jsonschema.Draft) (*Schema, error) {
	if _, err := compileWith(doc, draft, nil); err != nil {
		return nil, err
	}
	s := &Schema{steps: &budget{}}
	var err error
	if s.compiled, err = compileWith(doc, draft, s.steps); err != nil {
		return nil, err
	}
	err = s.validate(map[string]any{})
	if errors.Is(err, errSteps) {
		return nil, err
	}
	for e := range leaves(err) {
		if _, ok := e.ErrorKind.(*kind.RefCycle); ok {
			return nil, errors.New("a reference is circular")
		}
	}
	return s, nil
}

// offline fetches no schema.
type offline struct{}

// Load always fails.
func (offline) Load(string) (any, error) {
	return nil, errors.New("references are not fetched: put the schema under $defs")
}

func compileWith(doc any, draft *jsonschema.Draft, b *budget) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(offline{})
	for _, name := range []string{
		"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
		"period", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
	} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		if len(pattern) > maxPattern {
			return nil, errPattern
		}
		return regexp.Compile(pattern)
	})
	if b != nil {
		c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "turnlog:steps", Compile: b.meter})
		c.AssertVocabs()
	}
	const root = "schema:root"
	if err := c.AddResource(root, doc); err != nil {
		return nil, err //nolint:wrapcheck // callers name the schema
	}
	compiled, err := c.Compile(root)
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return nil, explain(e.Err)
	}
	return compiled, err //nolint:wrapcheck // callers name the schema
}

// budget counts the steps of a check.
type budget struct{ left int }

// meter makes a schema count when it is applied, with its alternatives.
func (b *budget) meter(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
	s := step{b, 1}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := obj[keyword].([]any); ok {
			s.n += len(list)
		}
	}
	return s, nil
}

// step is the application of one schema to one value.
type step struct {
	budget *budget
	n      int
}

// Validate panics with errSteps when the budget is spent, which [Schema.validate] recovers.
func (s step) Validate(*jsonschema.ValidatorContext, any) {
	if s.budget.left -= s.n; s.budget.left < 0 {
		panic(errSteps)
	}
}

func (s *Schema) validate(v any) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		p := recover()
		spent, ok := p.(error)
		switch {
		case ok && errors.Is(spent, errSteps):
			err = errSteps
		case p != nil:
			panic(p)
		}
	}()
	s.steps.left = maxSteps
	return s.compiled.Validate(v) //nolint:wrapcheck // callers explain it
}

// AllowsObjects reports whether an object can fit the schema, by its type alone.
func (s *Schema) AllowsObjects() bool {
	types := s.compiled.Types
	return types == nil || types.IsEmpty() || slices.Contains(types.ToStrings(), "object")
}

// Check returns an error that names what in v does not fit, for a v as
// [json.Unmarshal] makes it.
func (s *Schema) Check(v any) error {
	err := s.validate(v)
	if err == nil || errors.Is(err, errSteps) {
		return err
	}
	return explain(err)
}

// maxProblems is how many problems an error names. More would hide the first one.
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

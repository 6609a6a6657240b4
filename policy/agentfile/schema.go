package agentfile

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/turnlog/turnlog/internal/nearest"
)

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema of agent files, for editors.
func Schema() []byte { return slices.Clone(schemaJSON) }

// compiled is the schema, which takes 10 ms to compile.
var compiled = sync.OnceValues(compileSchema) //nolint:gochecknoglobals // immutable

func compileSchema() (*jsonschema.Schema, error) {
	const name = "agent.schema.json"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaJSON))
	if err != nil {
		return nil, fmt.Errorf("agent schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for format, check := range formats() {
		c.RegisterFormat(&jsonschema.Format{Name: format, Validate: func(v any) error {
			text, ok := v.(string)
			if !ok {
				return nil // a problem of its type
			}
			return check(text)
		}})
	}
	if err := c.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("agent schema: %w", err)
	}
	return c.Compile(name) //nolint:wrapcheck // it names the schema
}

func (r *reader) matchSchema() {
	s, err := compiled()
	if err != nil {
		r.report("", "agent file schema: %v", err)
		return
	}
	if bad, ok := errors.AsType[*jsonschema.ValidationError](s.Validate(r.tree.value)); ok {
		r.mismatch(s, bad)
	}
}

// mismatch reports an error of validation, or the errors that caused it. The library's
// text is used where it cannot be improved by a suggestion.
func (r *reader) mismatch(root *jsonschema.Schema, e *jsonschema.ValidationError) {
	path, s := r.locate(root, e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Enum:
		r.report(path, "%q: use %s%s", k.Got, list(enum(s), "or"), nearest.Hint(fmt.Sprint(k.Got), enum(s)))
	case *kind.Format:
		r.report(path, "%v", k.Err)
	case *kind.Pattern: // the format next to it says more
	case *kind.AdditionalProperties:
		for _, key := range k.Properties {
			r.problemAt(r.tree.keys[path+"."+key], "", "unknown field %q%s", key, keyHint(key, s))
		}
	case *kind.PropertyNames: // of servers
		r.problemAt(r.tree.keys[path+"."+k.Property], path, "%v", checkName(k.Property))
	case *kind.DependentRequired:
		r.report(path+"."+k.Prop, "needs %s", list(k.Missing, "and"))
	case *kind.OneOf:
		r.report(path, "give exactly one of %s", keysOf(s.OneOf))
	case *kind.AnyOf:
		r.report(path, "give at least one of %s", keysOf(s.AnyOf))
	case *kind.Not:
		if len(s.Not.Required) > 0 {
			r.report(path+"."+s.Not.Required[1], "give only one of %s", list(s.Not.Required, "and"))
		} else {
			r.report(path, "got 0, want a number from 1 up, or -1")
		}
	case *kind.UniqueItems:
		r.report(at(path, k.Duplicates[1]), "is the same as entry %d", k.Duplicates[0])
	default:
		for _, cause := range e.Causes {
			r.mismatch(root, cause)
		}
		if len(e.Causes) == 0 {
			r.report(path, "%s", k.LocalizedString(message.NewPrinter(language.English)))
		}
	}
}

// locate follows a JSON pointer to the path of a value and its schema.
func (r *reader) locate(s *jsonschema.Schema, pointer []string) (path string, _ *jsonschema.Schema) {
	path, value := "$", r.tree.value
	for _, key := range pointer {
		switch v := value.(type) {
		case map[string]any:
			path, value = path+"."+key, v[key]
			next := s.Properties[key]
			if next == nil {
				next, _ = s.AdditionalProperties.(*jsonschema.Schema)
			}
			s = next
		case []any:
			i, _ := strconv.Atoi(key) // the library made it from an int
			path, value, s = at(path, i), v[i], s.Items2020
		}
		for s.Ref != nil {
			s = s.Ref
		}
	}
	return path, s
}

// keyHint suggests the key that was meant.
func keyHint(key string, s *jsonschema.Schema) string {
	var known []string
	for k := range s.Properties {
		known = append(known, k)
	}
	slices.Sort(known)
	if hint := nearest.Hint(key, known); hint != "" || len(known) > 12 {
		return hint
	}
	return ": use " + list(known, "or")
}

func enum(s *jsonschema.Schema) []string {
	words := make([]string, len(s.Enum.Values))
	for i, w := range s.Enum.Values {
		words[i] = fmt.Sprint(w)
	}
	return words
}

// keysOf lists the keys of which each schema requires one.
func keysOf(of []*jsonschema.Schema) string {
	keys := make([]string, len(of))
	for i, s := range of {
		keys[i] = s.Required[0]
	}
	return list(keys, "and")
}

func list(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

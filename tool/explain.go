package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxProblems is how many violations one answer names; more would bury the first.
const maxProblems = 5

// explain says what in v does not fit, field by field, in an order that depends
// on nothing but its arguments. It knows the keywords that schemas of tools use;
// for what it does not know it says nothing.
func explain(p *places, v any) []string {
	e := explainer{places: p}
	e.value(p.root, v, "")
	if more := len(e.problems) - maxProblems; more > 0 {
		return append(e.problems[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return e.problems
}

type explainer struct {
	places   *places
	problems []string
}

func (e *explainer) add(path, format string, args ...any) {
	if path == "" {
		path = "the arguments"
	}
	problem := path + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(e.problems, problem) {
		e.problems = append(e.problems, problem)
	}
}

func (e *explainer) value(s *jsonschema.Schema, v any, path string) {
	if s.Ref != "" {
		e.value(e.places.target(s.Ref), v, path)
	}
	if want := types(s); want != nil && !fits(v, want) {
		e.add(path, "is %s, want %s", render(v), strings.Join(want, " or "))
		return
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(x any) bool { return jsonschema.Equal(x, v) }) {
		e.add(path, "is %s, want %s", render(v), alternatives(s.Enum))
		return
	}
	if s.Const != nil && !jsonschema.Equal(*s.Const, v) {
		e.add(path, "is %s, want %s", render(v), render(*s.Const))
		return
	}
	switch v := v.(type) {
	case float64:
		e.number(s, v, path)
	case string:
		e.text(s, v, path)
	case []any:
		e.array(s, v, path)
	case map[string]any:
		e.object(s, v, path)
	}
	for _, all := range s.AllOf {
		e.value(all, v, path)
	}
}

func (e *explainer) number(s *jsonschema.Schema, v float64, path string) {
	switch {
	case s.Minimum != nil && v < *s.Minimum:
		e.add(path, "is %s, want at least %s", render(v), render(*s.Minimum))
	case s.Maximum != nil && v > *s.Maximum:
		e.add(path, "is %s, want at most %s", render(v), render(*s.Maximum))
	case s.ExclusiveMinimum != nil && v <= *s.ExclusiveMinimum:
		e.add(path, "is %s, want more than %s", render(v), render(*s.ExclusiveMinimum))
	case s.ExclusiveMaximum != nil && v >= *s.ExclusiveMaximum:
		e.add(path, "is %s, want less than %s", render(v), render(*s.ExclusiveMaximum))
	}
}

func (e *explainer) text(s *jsonschema.Schema, v, path string) {
	n := utf8.RuneCountInString(v)
	if s.MinLength != nil && n < *s.MinLength {
		if n == 0 {
			e.add(path, "is empty")
		} else {
			e.add(path, "has %d characters, want at least %d", n, *s.MinLength)
		}
	}
	if s.MaxLength != nil && n > *s.MaxLength {
		e.add(path, "has %d characters, want at most %d", n, *s.MaxLength)
	}
	if s.Pattern == "" {
		return
	}
	if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(v) {
		e.add(path, "is %s, want a match of the pattern %s", render(v), s.Pattern)
	}
}

func (e *explainer) array(s *jsonschema.Schema, v []any, path string) {
	if s.MinItems != nil && len(v) < *s.MinItems {
		e.add(path, "has %d elements, want at least %d", len(v), *s.MinItems)
	}
	if s.MaxItems != nil && len(v) > *s.MaxItems {
		e.add(path, "has %d elements, want at most %d", len(v), *s.MaxItems)
	}
	for i, element := range v {
		at := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case i < len(s.PrefixItems):
			e.value(s.PrefixItems[i], element, at)
		case s.Items != nil:
			e.value(s.Items, element, at)
		}
	}
}

func (e *explainer) object(s *jsonschema.Schema, v map[string]any, path string) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			e.add(join(path, name), "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch property := s.Properties[name]; {
		case property != nil:
			e.value(property, v[name], join(path, name))
		case s.AdditionalProperties == nil || len(s.PatternProperties) > 0:
		case refusesAll(s.AdditionalProperties):
			e.add(join(path, name), "is not known here%s", known(s))
		default:
			e.value(s.AdditionalProperties, v[name], join(path, name))
		}
	}
}

// refusesAll recognises the schema false.
func refusesAll(s *jsonschema.Schema) bool {
	return s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

func known(s *jsonschema.Schema) string {
	if len(s.Properties) == 0 {
		return ", no field is"
	}
	return ", want " + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
}

func types(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func fits(v any, want []string) bool {
	switch v := v.(type) {
	case nil:
		return slices.Contains(want, "null")
	case bool:
		return slices.Contains(want, "boolean")
	case string:
		return slices.Contains(want, "string")
	case float64:
		return slices.Contains(want, "number") || v == math.Trunc(v) && slices.Contains(want, "integer")
	case []any:
		return slices.Contains(want, "array")
	default:
		return slices.Contains(want, "object")
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func alternatives(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = render(v)
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "one of " + strings.Join(texts, ", ")
}

// render shows a value in a sentence: scalars as JSON, the rest by its type.
func render(v any) string {
	switch v := v.(type) {
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return "something else"
		}
		return clipText(string(raw), 60)
	}
}

// clipText cuts s to about limit bytes, on the boundary of a character.
func clipText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

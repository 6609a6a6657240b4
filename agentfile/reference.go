package agentfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Reference returns the reference of agent files for people, as Markdown made
// from [Schema].
func Reference() (string, error) {
	s, err := schema()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	section(&b, "", s)
	return b.String(), nil
}

// section writes a table of an object's keys, then one for each object in it.
func section(b *strings.Builder, path string, s *jsonschema.Schema) {
	title := "`" + path + "`"
	if path == "" {
		title = "The file"
	}
	fmt.Fprintf(b, "## %s\n\n| key | value | what it says |\n|---|---|---|\n", title)
	for _, key := range s.PropertyOrder {
		p := s.Properties[key]
		name := "`" + key + "`"
		if slices.Contains(s.Required, key) {
			name += " (required)"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, valueOf(p), strings.ReplaceAll(p.Description, "|", `\|`))
	}
	b.WriteByte('\n')
	for _, key := range s.PropertyOrder {
		inner, suffix := element(s.Properties[key])
		if len(inner.PropertyOrder) > 0 {
			section(b, strings.TrimPrefix(path+"."+key+suffix, "."), inner)
		}
	}
}

// element is what a list or map holds, or the schema itself.
func element(s *jsonschema.Schema) (inner *jsonschema.Schema, suffix string) {
	switch {
	case s.Items != nil:
		return s.Items, "[]"
	case s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil:
		return s.AdditionalProperties, ".NAME"
	}
	return s, ""
}

// valueOf says in words what a value may be.
func valueOf(s *jsonschema.Schema) string {
	switch inner, suffix := element(s); {
	case suffix == "[]":
		return "list of " + valueOf(inner)
	case suffix != "":
		return valueOf(inner) + " by name"
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, w := range s.Enum {
			words[i] = fmt.Sprintf("`%v`", w)
		}
		return strings.Join(words, ", ")
	case s.Pattern == durationPattern:
		return "duration"
	case s.Type != "":
		return s.Type
	}
	return typeOf(s)
}

// typeOf is the type of a schema that also allows null.
func typeOf(s *jsonschema.Schema) string {
	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}
	return "any"
}

package agentfile

import (
	"fmt"
	"maps"
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
	if rules := rulesOf(s); rules != "" {
		fmt.Fprintf(b, "\n%s\n", rules)
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
	case boundsOf(s) != "":
		return strings.Replace(boundsOf(s), "a number", kindOf(s), 1)
	}
	return kindOf(s)
}

// rulesOf says which keys of an object go with which.
func rulesOf(s *jsonschema.Schema) string {
	var all []string
	if len(s.OneOf) > 0 {
		all = append(all, "Exactly one of "+keysOf(s.OneOf)+" is given.")
	}
	if len(s.AnyOf) > 0 {
		all = append(all, "At least one of "+keysOf(s.AnyOf)+" is given.")
	}
	if s.Not != nil && len(s.Not.Required) > 0 {
		all = append(all, "Only one of `"+strings.Join(s.Not.Required, "` and `")+"` may be given.")
	}
	for _, key := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		all = append(all, fmt.Sprintf("`%s` goes with `%s` only.", key, s.DependentRequired[key][0]))
	}
	return strings.Join(all, " ")
}

// keysOf are the keys of which each schema wants one.
func keysOf(of []*jsonschema.Schema) string {
	words := make([]string, len(of))
	for i, s := range of {
		words[i] = "`" + s.Required[0] + "`"
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

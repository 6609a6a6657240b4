package exec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// types checks the words for types in a schema at a path of the manifest: a wrong one
// is no error to who validates, and no input would fit.
func (m *Manifest) types(path string, schema map[string]any) error {
	words, ok := schema["type"].([]any)
	if kind, there := schema["type"]; there && !ok {
		words = []any{kind}
	}
	for _, word := range words {
		known := []any{"string", "number", "integer", "boolean", "array", "object", "null"}
		if slices.Contains(known, word) {
			continue
		}
		text := fmt.Sprint(word)
		if s, ok := word.(string); ok {
			text = fmt.Sprintf("%q", s)
		}
		return m.at(path+".type", "%s: use string, number, integer, boolean, array, object or null", text)
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		if err := m.typesBelow(path+"."+key, key, schema[key]); err != nil {
			return err
		}
	}
	return nil
}

// typesBelow checks what stands under a key of a schema, if that holds schemas.
func (m *Manifest) typesBelow(path, key string, value any) error {
	switch key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		named, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if schema, ok := named[name].(map[string]any); ok {
				if err := m.types(path+"."+member(name), schema); err != nil {
					return err
				}
			}
		}
	case "items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
		"unevaluatedItems", "unevaluatedProperties":
		if schema, ok := value.(map[string]any); ok {
			return m.types(path, schema)
		}
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, _ := value.([]any)
		for i, each := range list {
			if schema, ok := each.(map[string]any); ok {
				if err := m.types(fmt.Sprintf("%s[%d]", path, i), schema); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// member is a name as a part of a path.
func member(name string) string {
	if strings.ContainsAny(name, ".[]$*' ") {
		return "'" + name + "'"
	}
	return name
}

package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// enforceable returns the part of a schema that the API can enforce, according to its
// documentation of structured outputs. The other keywords become text of the
// description, which the model reads.
func enforceable(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok { // true or false
		return schema
	}
	if ref, ok := s["$ref"]; ok { // the API accepts nothing next to it
		return object{"$ref": ref}
	}
	out, rest := map[string]any{}, map[string]any{}
	for keyword, v := range s {
		switch keyword {
		case "type", "title", "description", "enum", "const", "required", "pattern":
			out[keyword] = v
		case "items", "additionalProperties":
			out[keyword] = enforceable(v)
		case "properties", "$defs", "anyOf", "allOf":
			out[keyword] = eachEnforceable(v)
		case "$schema", "$id", "$comment": // they restrict nothing
		case "oneOf":
			if _, both := s["anyOf"]; both {
				rest[keyword] = v
			} else {
				out["anyOf"] = eachEnforceable(v)
			}
		case "format":
			keep(out, rest, keyword, v, slices.Contains(formats(), fmt.Sprint(v)))
		case "minItems":
			keep(out, rest, keyword, v, v == 0.0 || v == 1.0)
		default:
			rest[keyword] = v
		}
	}
	closeObject(out)
	describe(out, rest)
	return out
}

// eachEnforceable applies enforceable to the schemas of a list or a map.
func eachEnforceable(schemas any) any {
	switch all := schemas.(type) {
	case []any:
		list := make([]any, len(all))
		for i, s := range all {
			list[i] = enforceable(s)
		}
		return list
	case map[string]any:
		named := make(map[string]any, len(all))
		for name, s := range all {
			named[name] = enforceable(s)
		}
		return named
	}
	return schemas
}

func keep(out, rest map[string]any, keyword string, v any, supported bool) {
	if supported {
		out[keyword] = v
	} else {
		rest[keyword] = v
	}
}

// formats returns the formats of strings that the API enforces.
func formats() []string {
	return []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
}

// closeObject forbids properties that the schema of an object does not name, as the API requires. It
// does not change a map, whose values have a schema instead.
func closeObject(s map[string]any) {
	kinds, _ := s["type"].([]any) // a list, as in ["object", "null"]
	if s["type"] != "object" && !slices.Contains(kinds, any("object")) {
		return
	}
	_, isMap := s["additionalProperties"]
	_, named := s["properties"]
	if named || !isMap {
		s["additionalProperties"] = false
	}
	if !named && !isMap {
		s["properties"] = object{}
	}
}

// describe appends keywords to a schema's description.
func describe(s, keywords map[string]any) {
	if len(keywords) == 0 {
		return
	}
	var list []string
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		v := keywords[keyword]
		text, isText := v.(string)
		if !isText {
			b, _ := json.Marshal(v) // it was read from JSON
			text = string(b)
		}
		list = append(list, keyword+": "+text)
	}
	text := "{" + strings.Join(list, ", ") + "}"
	if d, _ := s["description"].(string); d != "" {
		text = d + "\n\n" + text
	}
	s["description"] = text
}

package openai

import (
	"encoding/json"
	"slices"
)

// Limits of the strict subset.
const (
	strictDepth      = 10
	strictProperties = 5000
	strictEnum       = 1000
)

// strict reports whether the provider can enforce a schema: every property is
// required, there are no others, and all keywords are supported. Any other schema is
// sent unchanged and not enforced, because changing it would change the meaning of the
// tool. If that is unclear, strict returns false.
func strict(schema json.RawMessage) bool {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil || root["type"] != "object" || root["anyOf"] != nil {
		return false
	}
	var c strictCheck
	return c.schema(root, 1)
}

// strictCheck walks a schema.
type strictCheck struct {
	properties int
}

func (c *strictCheck) schema(schema any, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth > strictDepth {
		return false
	}
	if s["type"] == nil && s["anyOf"] == nil && s["$ref"] == nil && s["enum"] == nil && s["const"] == nil {
		return false // anything
	}
	for keyword, value := range s {
		if !c.keyword(keyword, value, depth) {
			return false
		}
	}
	types, _ := s["type"].([]any)
	isObject := s["type"] == "object" || slices.Contains(types, any("object")) || s["properties"] != nil
	return !isObject || closed(s)
}

// keyword reports whether the subset contains the keyword with this value.
func (c *strictCheck) keyword(keyword string, value any, depth int) bool {
	list, isList := value.([]any)
	named, isObject := value.(map[string]any)
	switch keyword {
	case "type", "title", "description", "required", "const", "pattern", "$ref",
		"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems":
		return true
	case "additionalProperties":
		return value == false
	case "format":
		return slices.Contains([]any{
			"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
		}, value)
	case "enum":
		return isList && len(list) <= strictEnum
	case "items":
		return c.schema(value, depth+1)
	case "anyOf":
		return len(list) > 0 && !slices.ContainsFunc(list, func(branch any) bool { return !c.schema(branch, depth+1) })
	case "properties", "$defs", "definitions":
		if keyword == "properties" {
			c.properties += len(named)
		}
		for _, s := range named {
			if !c.schema(s, depth+1) {
				return false
			}
		}
		return isObject && c.properties <= strictProperties
	}
	return false
}

// closed reports whether the required properties of an object are exactly the declared
// ones, and there are no others.
func closed(s map[string]any) bool {
	properties, _ := s["properties"].(map[string]any)
	required, isList := s["required"].([]any)
	if !isList || s["additionalProperties"] != false {
		return false
	}
	named := map[string]bool{}
	for _, r := range required {
		name, _ := r.(string)
		if _, ok := properties[name]; !ok {
			return false
		}
		named[name] = true
	}
	return len(named) == len(properties)
}

// fields returns a schema with the fields that some servers require. It keeps the order of the
// properties, which models follow.
func fields(schema json.RawMessage) map[string]json.RawMessage {
	var raw map[string]json.RawMessage
	if json.Unmarshal(schema, &raw) != nil || raw == nil {
		raw = map[string]json.RawMessage{"type": json.RawMessage(`"object"`)}
	}
	if plain(raw["type"]) == "object" && raw["properties"] == nil {
		raw["properties"] = json.RawMessage(`{}`)
	}
	return raw
}

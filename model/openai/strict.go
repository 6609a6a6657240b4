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
// sent unchanged and not enforced, because changing it would change the meaning of
// the tool. In doubt, strict returns false.
func strict(schema json.RawMessage) bool {
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil || plain(root["type"]) != "object" || root["anyOf"] != nil {
		return false
	}
	var c strictCheck
	return c.schema(schema, 1)
}

// strictCheck walks a schema.
type strictCheck struct {
	properties int
}

func (c *strictCheck) schema(raw json.RawMessage, depth int) bool {
	var s map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil || s == nil || depth > strictDepth {
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
	isObject := slices.Contains(types(s["type"]), "object") || s["properties"] != nil
	return !isObject || c.object(s)
}

// keyword reports whether the subset contains the keyword with this value.
func (c *strictCheck) keyword(keyword string, value json.RawMessage, depth int) bool {
	switch keyword {
	case "type", "title", "description", "required", "const", "pattern", "$ref",
		"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems":
		return true
	case "additionalProperties":
		return string(value) == "false"
	case "format":
		return slices.Contains([]string{
			"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
		}, plain(value))
	case "enum":
		var values []json.RawMessage
		return json.Unmarshal(value, &values) == nil && len(values) <= strictEnum
	case "items":
		return c.schema(value, depth+1)
	case "anyOf":
		var branches []json.RawMessage
		return json.Unmarshal(value, &branches) == nil && len(branches) > 0 &&
			!slices.ContainsFunc(branches, func(b json.RawMessage) bool { return !c.schema(b, depth+1) })
	case "properties":
		return c.each(value, depth, true)
	case "$defs", "definitions":
		return c.each(value, depth, false)
	}
	return false
}

// each checks the schemas in the values of an object.
func (c *strictCheck) each(raw json.RawMessage, depth int, properties bool) bool {
	var named map[string]json.RawMessage
	if json.Unmarshal(raw, &named) != nil {
		return false
	}
	if properties {
		if c.properties += len(named); c.properties > strictProperties {
			return false
		}
	}
	for _, s := range named {
		if !c.schema(s, depth+1) {
			return false
		}
	}
	return true
}

// object reports whether the required properties are exactly the declared ones.
func (c *strictCheck) object(s map[string]json.RawMessage) bool {
	if string(s["additionalProperties"]) != "false" {
		return false
	}
	var properties map[string]json.RawMessage
	var required []string
	if s["properties"] != nil && json.Unmarshal(s["properties"], &properties) != nil {
		return false
	}
	if s["required"] == nil || json.Unmarshal(s["required"], &required) != nil {
		return false
	}
	for name := range properties {
		if !slices.Contains(required, name) {
			return false
		}
	}
	return !slices.ContainsFunc(required, func(name string) bool { _, ok := properties[name]; return !ok })
}

// types returns the types of a schema.
func types(raw json.RawMessage) []string {
	var several []string
	if json.Unmarshal(raw, &several) == nil {
		return several
	}
	return []string{plain(raw)}
}

// fields returns a schema as fields whose values the SDK does not change. This keeps
// the order of the properties, which models follow.
func fields(schema json.RawMessage) map[string]any {
	var raw map[string]json.RawMessage
	if json.Unmarshal(schema, &raw) != nil || raw == nil {
		raw = map[string]json.RawMessage{"type": json.RawMessage(`"object"`)}
	}
	if plain(raw["type"]) == "object" && raw["properties"] == nil {
		raw["properties"] = json.RawMessage(`{}`) // some servers require it
	}
	named := make(map[string]any, len(raw))
	for k, v := range raw {
		named[k] = v
	}
	return named
}

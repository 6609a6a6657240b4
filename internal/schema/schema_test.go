package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/schema"
)

const order = `{
	"type": "object",
	"properties": {
		"id":    {"type": "integer", "minimum": 1, "maximum": 99},
		"mode":  {"enum": ["fast", "slow"]},
		"kind":  {"const": "order"},
		"name":  {"type": "string", "minLength": 1, "maxLength": 5},
		"at":    {"type": "string", "format": "date-time"},
		"code":  {"type": "string", "pattern": "^[A-Z]+$"},
		"lines": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/line"}},
		"pair":  {"type": "array", "minItems": 2, "prefixItems": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]},
		"extra": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
		"all":   {"allOf": [{"type": "string"}, {"minLength": 3}]},
		"one":   {"oneOf": [{"type": "string"}, {"type": "integer"}]}
	},
	"required": ["id"],
	"additionalProperties": false,
	"$defs": {"line": {
		"type": "object",
		"properties": {"sku": {"type": "string"}, "sub": {"$ref": "#/$defs/line"}},
		"required": ["sku"], "additionalProperties": false
	}}
}`

func TestCheckNamesEveryProblem(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(order))
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"id": 1}`:   "",
		`{"id": 3.0}`: "",
		`{"id": 1, "mode": "fast", "kind": "order", "name": "é", "at": "noon", "lines": [{"sku": "a", "sub": {"sku": "b"}}], "pair": ["a", 1], "extra": {"x": null}, "one": 1}`: "",
		`{}`:                          "missing property 'id'",
		`[]`:                          "got array, want object",
		`{"id": "1"}`:                 "id: got string, want integer",
		`{"id": 1.5}`:                 "id: got number, want integer",
		`{"id": 0}`:                   "id: minimum: got 0, want 1",
		`{"id": 100}`:                 "id: maximum: got 100, want 99",
		`{"id": 1, "mode": "medium"}`: "mode: value must be one of 'fast', 'slow'",
		`{"id": 1, "kind": {}}`:       "kind: value must be 'order'",
		`{"id": 1, "name": ""}`:       "name: minLength: got 0, want 1",
		`{"id": 1, "name": "abcdef"}`: "name: maxLength: got 6, want 5",
		`{"id": 1, "code": "a"}`:      "code: 'a' does not match pattern '^[A-Z]+$'",
		`{"id": 1, "lines": [{}, {"sku": 7}, {"sku": "a", "sub": {"sku": true}}]}`: "lines.0: missing property 'sku'; lines.1.sku: got number, want string; lines.2.sub.sku: got boolean, want string; lines: maxItems: got 3, want 2",
		`{"id": 1, "pair": [1, 0]}`:                                       "pair.0: got number, want string; pair.1: exclusiveMinimum: got 0, want 0",
		`{"id": 1, "extra": {"x": 1}}`:                                    "extra.x: got number, want null or string",
		`{"id": 1, "all": "ab"}`:                                          "all: minLength: got 2, want 3",
		`{"id": 1, "one": true}`:                                          "one: got boolean, want integer; one: got boolean, want string",
		`{"id": 1, "nr": 2, "c": 1, "d": 1, "e": 1}`:                      "additional properties 'c', 'd', 'e', 'nr' not allowed",
		`{"id":0,"mode":0,"kind":0,"name":0,"code":0,"lines":0,"pair":0}`: "code: got number, want string; id: minimum: got 0, want 1; kind: value must be 'order'; lines: got number, want array; mode: value must be one of 'fast', 'slow'; and 2 more",
	} {
		var v any
		if err := json.Unmarshal([]byte(input), &v); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := s.Check(v); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", input, got, want)
		}
	}
}

func TestCompileAcceptsEveryDialectInUse(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{}`, `true`, `{"type": ["object", "null"]}`, `{"$schema": "urn:unknown"}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "properties": {"a": {"$ref": "#/definitions/a"}}}`,
		`{"$schema": "https://json-schema.org/draft/2019-09/schema"}`,
		`{"properties": {"tuple": {"items": [{"type": "string"}, {"type": "number"}]}}}`,
		`{"properties": {"a/b": {"type": "array", "items": {"$ref": "#/properties/a~1b"}}}}`,
		`{"properties": {"a": {"$ref": "#node"}}, "$defs": {"n": {"$anchor": "node", "properties": {"next": {"$ref": "#node"}}}}}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": {"items": {"format": "email"}}}}`,
	} {
		s, err := schema.Compile([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if err := s.Check(map[string]any{"x": []any{"no address"}}); err != nil || !s.AllowsObjects() {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`nonsense`: "not valid JSON: invalid character 'o' in literal null (expecting 'u')",
		`{"properties": {"a": {"type": "strin"}}}`:          "properties.a.type: got string, want array; properties.a.type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
		`{"properties": {"a": {"pattern": "(?=x)"}}}`:       "properties.a.pattern: '(?=x)' is not valid regex: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
		`{"$ref": "#/$defs/a"}`:                             `json-pointer in "schema:root#/$defs/a" not found`,
		`{"properties": {"a": {"$ref": "http://e/s"}}}`:     `failing loading "http://e/s": no URLLoader set`,
		`{"properties": {"a": {"$ref": "file:///etc/os"}}}`: `failing loading "file:///etc/os": no URLLoader set`,
	} {
		if _, err := schema.Compile([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", raw, err, want)
		}
	}
}

func TestEndlessSchemaIsAnError(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"$ref": "#"}`, `{"allOf": [{"$ref": "#x"}], "$anchor": "x"}`, `{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}`,
	} {
		if _, err := schema.Compile([]byte(raw)); err == nil || err.Error() != "it refers to itself without end" {
			t.Errorf("%s: %v", raw, err)
		}
	}
	deep, err := schema.Compile([]byte(`{"properties": {"a": {"$ref": "#/properties/a"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := deep.Check(map[string]any{"a": 1.0}); err == nil || !strings.Contains(err.Error(), "reference cycle") {
		t.Errorf("below the root: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(order), []byte(`{"id": 1, "lines": [{}]}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"a":{"$ref":"#"}}}}}`), []byte(`{"a":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, raw, input []byte) {
		var v any
		s, err := schema.Compile(raw)
		if err != nil || json.Unmarshal(input, &v) != nil {
			return
		}
		if err := s.Check(v); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}

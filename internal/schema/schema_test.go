package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/schema"
	"github.com/turnlog/turnlog/internal/testing/allocated"
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
		`{"properties": {"a": {"$ref": "http://e/s"}}}`:     `failing loading "http://e/s": references are not fetched: put the schema under $defs`,
		`{"properties": {"a": {"$ref": "file:///etc/os"}}}`: `failing loading "file:///etc/os": references are not fetched: put the schema under $defs`,
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
		if _, err := schema.Compile([]byte(raw)); err == nil || err.Error() != "a reference is circular" {
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

// doubling returns a schema in which each of n definitions applies the next one twice.
func doubling(n int, wrap func(next string) string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		fmt.Fprintf(&b, `"a%d":%s,`, i, wrap(next+","+next))
	}
	fmt.Fprintf(&b, `"a%d":{"type":"string"}}}`, n)
	return b.String()
}

// maxTaken is the most memory that compiling a schema and checking a value with it allocates.
const maxTaken = 512 << 20

func TestACheckHasABudget(t *testing.T) { //nolint:paralleltest // it measures allocations
	check := func(raw string, v any) (err error) {
		t.Helper()
		took := allocated.By(func() {
			var s *schema.Schema
			if s, err = schema.Compile([]byte(raw)); err == nil {
				err = s.Check(v)
			}
		})
		if took > maxTaken {
			t.Errorf("%.60s: it took %d bytes", raw, took)
		}
		return err
	}
	for _, keyword := range []string{"anyOf", "allOf", "oneOf"} { // in an older draft, which has to be told to count
		raw := `{"$schema":"http://json-schema.org/draft-07/schema#",` + doubling(40, func(next string) string { return fmt.Sprintf(`{%q:[%s]}`, keyword, next) })[1:]
		if err := check(raw, map[string]any{}); err == nil || !strings.Contains(err.Error(), "more than 300000 steps") {
			t.Errorf("%s of 40 doublings: %.200v", keyword, err)
		}
	}
	var nested any = "x"
	for range 40 {
		nested = map[string]any{"x": nested}
	}
	byDepth := doubling(40, func(next string) string {
		a, b, _ := strings.Cut(next, "},{")
		return fmt.Sprintf(`{"anyOf":[{"properties":{"x":%s}}},{"properties":{"x":{%s}}]}`, a, b)
	})
	byDepth = strings.Replace(byDepth, `{"type":"string"}`, `false`, 1)
	if err := check(byDepth, nested); err == nil || !strings.Contains(err.Error(), "more than 300000 steps") {
		t.Errorf("a doubling with each level of the value: %.200v", err)
	}
	for raw, says := range map[string]string{
		`{"description":"` + strings.Repeat("x", 256<<10) + `"}`:               "a schema has at most 256 KiB",
		strings.Repeat(`{"not":`, 200) + "true" + strings.Repeat("}", 200):     "the schema nests too deeply: more than 128 levels",
		`{"properties":{"a":{"pattern":"` + strings.Repeat("x", 1001) + `"}}}`: "a pattern has at most 1000 bytes",
	} {
		if err := check(raw, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want %q", raw, err, says)
		}
	}
	ten := make([]any, 50_000)
	if err := check(`{"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}`, ten); err != nil {
		t.Errorf("50,000 items: %v", err)
	}
}

func TestCheckJSONBoundsNesting(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		``: true, `}]`: true, `{"a":[1,{"b":"]["}]}`: true, `"` + strings.Repeat("[", 1000) + `"`: true, `"\"` + strings.Repeat("[", 1000) + `"`: true,
		strings.Repeat("[]", 1000): true,
		strings.Repeat("[", schema.JSONDepth) + strings.Repeat("]", schema.JSONDepth): true,
		strings.Repeat("[", schema.JSONDepth+1):                                       false,
		strings.Repeat(`{"a":`, schema.JSONDepth+1):                                   false,
		`"x"` + strings.Repeat(`[{"a":`, schema.JSONDepth):                            false,
	} {
		if err := schema.CheckJSON([]byte(text)); (err == nil) != ok || err != nil && !errors.Is(err, schema.ErrNested) {
			t.Errorf("CheckJSON(%.20q) = %v, want acceptance %v", text, err, ok)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(order), []byte(`{"id": 1, "lines": [{}]}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"a":{"$ref":"#"}}}}}`), []byte(`{"a":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, raw, input []byte) {
		var v any
		took := allocated.By(func() {
			s, err := schema.Compile(raw)
			if err != nil || schema.CheckJSON(input) != nil || json.Unmarshal(input, &v) != nil {
				return
			}
			if err := s.Check(v); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		})
		if took > maxTaken {
			t.Errorf("a schema of %d bytes and %d bytes of input took %d", len(raw), len(input), took)
		}
	})
}

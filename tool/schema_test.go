package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/tool"
)

const orderSchema = `{
	"type": "object",
	"properties": {
		"id":    {"type": "integer", "minimum": 1, "maximum": 99},
		"mode":  {"enum": ["fast", "slow"]},
		"kind":  {"const": "order"},
		"name":  {"type": "string", "minLength": 1, "maxLength": 5},
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

func TestViolationsAreNamedByField(t *testing.T) {
	t.Parallel()
	order := plain{spec: tool.Spec{Name: "order", InputSchema: json.RawMessage(orderSchema)}}
	for input, want := range map[string]string{
		`{"id": 1}`:   "",
		`{"id": 3.0}`: "",
		`{"id": 1, "mode": "fast", "kind": "order", "name": "é", "lines": [{"sku": "a", "sub": {"sku": "b"}}], "pair": ["a", 1], "extra": {"x": null}, "one": 1}`: "",
		``:                            "id: is missing",
		`{"id": "1"}`:                 `id: is "1", want integer`,
		`{"id": 1.5}`:                 "id: is 1.5, want integer",
		`{"id": null}`:                "id: is null, want integer",
		`{"id": [1]}`:                 "id: is an array, want integer",
		`{"id": 0}`:                   "id: is 0, want at least 1",
		`{"id": 100}`:                 "id: is 100, want at most 99",
		`{"id": 1, "mode": "medium"}`: `mode: is "medium", want one of "fast", "slow"`,
		`{"id": 1, "kind": {}}`:       `kind: is an object, want "order"`,
		`{"id": 1, "name": ""}`:       "name: is empty",
		`{"id": 1, "name": "ééééé", "code": "a"}`:                  `code: is "a", want a match of the pattern ^[A-Z]+$`,
		`{"id": 1, "name": "abcdef"}`:                              "name: has 6 characters, want at most 5",
		`{"id": 1, "lines": [{"sku": "a"}, {"sku": 7}]}`:           "lines[1].sku: is 7, want string",
		`{"id": 1, "lines": [{"sku": "a", "sub": {"sku": true}}]}`: "lines[0].sub.sku: is true, want string",
		`{"id": 1, "lines": [{}, {}, {}]}`:                         "lines: has 3 elements, want at most 2; lines[0].sku: is missing; lines[1].sku: is missing; lines[2].sku: is missing",
		`{"id": 1, "pair": ["a"]}`:                                 "pair: has 1 elements, want at least 2",
		`{"id": 1, "pair": [1, 0]}`:                                "pair[0]: is 1, want string; pair[1]: is 0, want more than 0",
		`{"id": 1, "extra": {"x": 1}}`:                             "extra.x: is 1, want string or null",
		`{"id": 1, "all": "ab"}`:                                   "all: has 2 characters, want at least 3",
		`{"id": 1, "ID": 1, "lines": [{"sku": "a", "nr": 1}]}`:     "ID: is not known here, want all, code, extra, id, kind, lines, mode, name, one, pair; lines[0].nr: is not known here, want sku, sub",
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`:                    "",
		`[]`:                                                       "the arguments: is an array, want object",
		`7`:                                                        "the arguments: is 7, want object",
		`{"id": `:                                                  "they are not valid JSON: unexpected end of JSON input",
		`{"id": 1} {}`:                                             "they are not valid JSON: invalid character '{' after top-level value",
		`{"id": 1e999}`:                                            "they are not valid JSON: cannot unmarshal number 1e999 into Go value of type float64",
	} {
		err := tool.Validate(order, json.RawMessage(input))
		got := ""
		if err != nil {
			got = err.Error()
		}
		switch {
		case strings.HasPrefix(input, `{"a"`): // more than are named
			if !strings.HasSuffix(got, "; and 2 more") || strings.Count(got, ";") != 5 {
				t.Errorf("%s: %s", input, got)
			}
		case want == "" && err != nil, want != "" && got != "Invalid arguments: "+want:
			t.Errorf("%s:\n got %s\nwant %s", input, got, want)
		}
		if e, ok := errors.AsType[*tool.Error](err); err != nil && (!ok || e.Code != tool.CodeInvalidArguments) {
			t.Errorf("%s: error %v has no code", input, err)
		}
	}
}

func TestViolationThatCannotBeExplainedIsTheLibrarys(t *testing.T) {
	t.Parallel()
	order := plain{spec: tool.Spec{Name: "order", InputSchema: json.RawMessage(orderSchema)}}
	err := tool.Validate(order, json.RawMessage(`{"id": 1, "one": true}`))
	if err == nil || !strings.HasPrefix(err.Error(), "Invalid arguments: ") || !strings.Contains(err.Error(), "/properties/one: oneOf") {
		t.Errorf("error = %v", err)
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"type": "string"}`:    "must describe an object",
		`{"type": 3}`:           "input schema: ",
		`nonsense`:              "invalid character",
		`{"$ref": "#"}`:         "refers to itself without end",
		`{"$ref": "#/$defs/a"}`: "leads nowhere",
		`{"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}`: "refers to itself without end",
		`{"allOf": [{"$ref": "#x"}], "$anchor": "x"}`:                                                                    "refers to itself without end",
		`{"properties": {"a": {"$dynamicRef": "#n"}, "b": {"$ref": "http://e/s"}}}`:                                      "leads nowhere",
		`{"properties": {"a": {"$id": "http://e/s"}}}`:                                                                   "below the root",
		`{"properties": {"a": {"pattern": "(?=x)"}}}`:                                                                    "input schema: ",
	} {
		broken := plain{spec: tool.Spec{Name: "broken", InputSchema: json.RawMessage(raw)}}
		if _, err := tool.Compile(broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one with %q", raw, err, want)
		}
	}
	for _, raw := range []string{
		``, `{}`, `true`, `{"type": ["object", "null"]}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "properties": {"a": {"$ref": "#/definitions/a"}}}`,
		`{"$schema": "https://json-schema.org/draft/2019-09/schema"}`,
		`{"properties": {"a/b": {"type": "array", "items": {"$ref": "#/properties/a~1b"}}}}`,
		`{"properties": {"a": {"$ref": "#node"}}, "$defs": {"n": {"$anchor": "node", "properties": {"next": {"$ref": "#node"}}}}}`,
	} {
		usable := plain{spec: tool.Spec{Name: "usable", InputSchema: json.RawMessage(raw)}}
		if err := tool.Validate(usable, json.RawMessage(`{"x": [1]}`)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// spied counts how often its spec was taken.
type spied struct {
	plain
	specs *int
}

func (s spied) Spec() tool.Spec {
	*s.specs++
	return s.plain.Spec()
}

func (s spied) Propose(context.Context, tool.Call) ([]tool.Request, error) {
	return []tool.Request{{Kind: "spied.on"}}, nil
}

func TestCompiledToolIsAskedOnce(t *testing.T) {
	t.Parallel()
	var specs int
	s := spied{plain{spec: tool.Spec{Name: "s", InputSchema: json.RawMessage(`{"required": ["a"]}`)}}, &specs}
	c, err := tool.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := tool.Compile(c)
	if err != nil || again != c {
		t.Errorf("compiling twice gives %v, %v", again, err)
	}
	for range 3 {
		if err := tool.Validate(c, nil); err == nil {
			t.Error("input without a is valid")
		}
	}
	if specs != 1 || c.Spec().Name != "s" {
		t.Errorf("the spec was taken %d times", specs)
	}
	for want, x := range map[string]tool.Tool{"spied.on": c, "": mustCompile(t, s.plain)} {
		rs, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{ID: "c1", Session: "s-1"})
		if err != nil || len(rs) != 1 || rs[0].Kind != want {
			t.Errorf("Propose = %+v, %v; want one request of kind %q", rs, err, want)
		}
	}
}

func mustCompile(t *testing.T, x tool.Tool) tool.Tool {
	t.Helper()
	c, err := tool.Compile(x)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(orderSchema), []byte(`{"id": 1, "lines": [{}]}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"a":{"$ref":"#"}}}}}`), []byte(`{"a":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, schema, input []byte) {
		x := plain{spec: tool.Spec{Name: "x", InputSchema: schema}}
		if err := tool.Validate(x, input); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}

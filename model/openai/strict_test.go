package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStrictSchemasAreRecognized(t *testing.T) {
	t.Parallel()
	object := func(inner string) string {
		return `{"type":"object","properties":{"a":` + inner + `},"required":["a"],"additionalProperties":false}`
	}
	deep := `{"type":"string"}`
	for range strictDepth {
		deep = object(deep)
	}
	for schema, want := range map[string]bool{
		object(`{"type":"string"}`): true,
		object(`{"type":["string","null"],"description":"d","pattern":"^x"}`): true,
		object(`{"type":"string","enum":["x","y"]}`):                          true,
		object(`{"type":"array","items":{"type":"integer","minimum":1}}`):     true,
		object(`{"anyOf":[{"type":"string"},{"type":"null"}]}`):               true,
		object(`{"type":"string","format":"date-time"}`):                      true,
		object(object(`{"type":"boolean"}`)):                                  true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"],"additionalProperties":false,"$defs":{"n":{"type":"string"}}}`: true,
		`{"type":"object","properties":{},"required":[],"additionalProperties":false}`:                                                            true,

		``:                  false,
		`null`:              false,
		`true`:              false,
		`{}`:                false,
		`{"type":"object"}`: false,
		`{"type":"string"}`: false,
		`{"type":"object","properties":{},"additionalProperties":false}`:                                           false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`:        false, // optional
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                  false, // open
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":true}`:      false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"],"additionalProperties":false}`: false,
		`{"anyOf":[` + object(`{"type":"string"}`) + `]}`:                                                          false,
		object(`{}`):   false, // anything
		object(`true`): false,
		object(`{"type":"string","default":"x"}`):                false,
		object(`{"type":"string","minLength":1}`):                false,
		object(`{"type":"string","format":"uri"}`):               false,
		object(`{"type":"object"}`):                              false,
		object(`{"type":["object","null"],"properties":{}}`):     false,
		object(`{"type":"array","items":{}}`):                    false,
		object(`{"oneOf":[{"type":"string"}]}`):                  false,
		object(`{"type":"array","items":{"type":"object"}}`):     false,
		object(`{"anyOf":[{"type":"string"},{"not":{}}]}`):       false,
		object(`{"type":"string","x-mine":1}`):                   false,
		deep:                                                     false,
		object(`{"enum":[` + strings.Repeat(`1,`, 1000) + `1]}`): false,
	} {
		if got := strict(json.RawMessage(schema)); got != want {
			t.Errorf("strict(%.200s) = %t", schema, got)
		}
	}
}

func TestSchemasAreSentUnchanged(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``:                          `{"properties":{},"type":"object"}`,
		`{"type":"object"}`:         `{"properties":{},"type":"object"}`,
		`{"$ref":"#/x","$defs":{}}`: `{"$defs":{},"$ref":"#/x"}`,
		`{"type":"object","properties":{"z":{"type":"number","maximum":12345678901234567890},"a":{}}}`: `{"properties":{"z":{"type":"number","maximum":12345678901234567890},"a":{}},"type":"object"}`,
	} {
		raw, err := json.Marshal(fields(json.RawMessage(schema)))
		if err != nil || string(raw) != want {
			t.Errorf("fields(%s) = %s, %v, want %s", schema, raw, err, want)
		}
	}
}

package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

// TestStrictSchemas compares what strict tools are sent with. A keyword that the API
// cannot enforce must neither be sent, which fails the request, nor be hidden from
// the model.
func TestStrictSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, want string }{
		"closed": {
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"object"}}}`,
			`{"additionalProperties":false,"properties":{"a":{"additionalProperties":false,"properties":{},"type":"object"}},"type":"object"}`,
		},
		"map": {
			`{"type":"object","additionalProperties":{"type":"string","minLength":1}}`,
			`{"additionalProperties":{"description":"{minLength: 1}","type":"string"},"type":"object"}`,
		},
		"list of types": {
			`{"type":["object","null"],"properties":{"l":{"type":["null","array"],"items":{"type":"integer","maximum":9}}}}`,
			`{"additionalProperties":false,"properties":{"l":{"items":{"description":"{maximum: 9}","type":"integer"},"type":["null","array"]}},"type":["object","null"]}`,
		},
		"described": {
			`{"type":"object","properties":{"at":{"type":"string","format":"date"},"re":{"type":"string","description":"A pattern.","format":"regex","default":"^"}}}`,
			`{"additionalProperties":false,"properties":{"at":{"format":"date","type":"string"},"re":{"description":"A pattern.\n\n{default: ^, format: regex}","type":"string"}},"type":"object"}`,
		},
		"items": {
			`{"type":"object","properties":{"a":{"type":"array","minItems":1},"b":{"type":"array","minItems":2}}}`,
			`{"additionalProperties":false,"properties":{"a":{"minItems":1,"type":"array"},"b":{"description":"{minItems: 2}","type":"array"}},"type":"object"}`,
		},
		"references": {
			`{"$ref":"#/$defs/n","description":"dropped"}`,
			`{"$ref":"#/$defs/n"}`,
		},
		"definitions": {
			`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number","exclusiveMinimum":0}}}`,
			`{"$defs":{"n":{"description":"{exclusiveMinimum: 0}","type":"number"}},"additionalProperties":false,"properties":{"n":{"$ref":"#/$defs/n"}},"type":"object"}`,
		},
		"alternatives": {
			`{"type":"object","properties":{"x":{"oneOf":[{"const":1},true]},"y":{"anyOf":[{"enum":["a"]}],"oneOf":[{"const":2}]}}}`,
			`{"additionalProperties":false,"properties":{"x":{"anyOf":[{"const":1},true]},"y":{"anyOf":[{"enum":["a"]}],"description":"{oneOf: [{\"const\":2}]}"}},"type":"object"}`,
		},
	} {
		r := modeltest.Ask("hi")
		r.Tools = []tool.Spec{{Name: "x", InputSchema: json.RawMessage(c.schema)}}
		if got := toolSchema(t, r); got != c.want {
			t.Errorf("%s: %s is sent as\n%s\nwant\n%s", name, c.schema, got, c.want)
		}
	}
}

func toolSchema(t *testing.T, r model.Request) string {
	t.Helper()
	a := sent(t, r, func(c *anthropic.Config) { c.Strict = true })
	var body struct {
		Tools []struct {
			Schema json.RawMessage `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(a.Body, &body); err != nil {
		t.Fatal(err)
	}
	return string(body.Tools[0].Schema)
}

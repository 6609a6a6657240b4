package httptool

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

const shop = `{
"openapi": "3.0.3",
"info": {"title": "Shop", "version": "1"},
"servers": [{"url": "/v1"}],
"paths": {
	"/orders/{id}": {
		"parameters": [{"name": "id", "in": "path", "required": true, "description": "Its number.", "schema": {"type": "string"}}],
		"get": {"operationId": "order", "summary": "Shows an order.", "parameters": [
			{"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
			{"name": "tags", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "string"}}},
			{"name": "depth", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}},
			{"name": "X-Region", "in": "header", "schema": {"type": "string"}},
			{"name": "Authorization", "in": "header", "schema": {"type": "string"}},
			{"name": "session", "in": "cookie", "schema": {"type": "string"}}]},
		"delete": {"operationId": "cancel.order"},
		"patch": {"operationId": "form", "requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object"}}}}}
	},
	"/orders": {
		"post": {"operationId": "add", "requestBody": {"$ref": "#/components/requestBodies/order"},
			"x-turnlog": {"effects": "idempotent", "timeout": "5s", "exclusive": true, "description": "Adds an order."}},
		"put": {"parameters": [{"name": "q", "in": "cookie", "required": true}]},
		"get": {"parameters": [{"$ref": "https://example.com/p"}]}
	}
},
"components": {
	"requestBodies": {"order": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/order"}}}}},
	"schemas": {
		"order": {"type": "object", "required": ["item"], "properties": {
			"item": {"type": "string", "nullable": true, "enum": ["a"]}, "parts": {"type": "array", "items": {"$ref": "#/components/schemas/order"}}}}
	}
}}`

func TestOperationsBecomeTools(t *testing.T) {
	t.Parallel()
	var got string
	s := serve(t, shop, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("X-Region"), raw)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	core, log := observer.New(zap.WarnLevel)
	tools := offered(t, open(t, Config{Services: []Service{{Name: "shop", URL: s.URL}}, Logger: zap.New(core)}))
	var specs []string
	byName := map[string]tool.Tool{}
	for _, x := range tools {
		d := x.Spec()
		byName[d.Name] = x
		specs = append(specs, fmt.Sprintf("%s %q %s %v %v", d.Name, d.Description, d.Effects, d.Exclusive, d.Timeout))
	}
	if diff := cmp.Diff([]string{
		`shop_add "Adds an order." idempotent true 5s`,
		`shop_cancel_order "DELETE /orders/{id}" idempotent false 2m0s`,
		`shop_order "Shows an order." read_only false 2m0s`,
	}, specs); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	var omitted []string
	for _, e := range log.All() {
		omitted = append(omitted, fmt.Sprint(e.ContextMap()["operation"], ": ", e.ContextMap()["error"]))
	}
	if diff := cmp.Diff([]string{
		`get/orders: a parameter: reference "https://example.com/p" is outside the document`,
		"put/orders: parameter q is in a cookie",
		"patch/orders/{id}: its body is not JSON",
	}, omitted); diff != "" {
		t.Errorf("omitted (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ tool, input, want string }{
		{"shop_order", `{"id":"a/b ?","fields":["x","y"],"tags":["1","2"],"depth":2,"X-Region":"eu"}`, "GET /v1/orders/a%2Fb%20%3F?depth=2&fields=x&fields=y&tags=1%2C2 eu "},
		{"shop_order", `{"id":"7"}`, "GET /v1/orders/7  "},
		{"shop_cancel_order", `{"id":"7"}`, "DELETE /v1/orders/7  "},
		{"shop_add", `{"body":{"item":"a","parts":[{"item":null}]}}`, `POST /v1/orders  {"item":"a","parts":[{"item":null}]}`},
	} {
		got = ""
		if r := invoke(t, byName[c.tool], c.input); r.Status != content.StatusOK || r.Text() != `{"ok":true}` || got != c.want {
			t.Errorf("%s %s:\n got %s (%s)\nwant %s", c.tool, c.input, got, r.Text(), c.want)
		}
	}
	for name, inputs := range map[string][]string{
		"shop_order": {`{}`, `{"id":".."}`, `{"id":""}`, `{"id":"1","depth":0}`, `{"id":"1","other":1}`},
		"shop_add":   {`{}`, `{"body":{}}`, `{"body":{"item":"b"}}`, `{"body":{"item":"a","parts":[{}]}}`},
	} {
		for _, input := range inputs {
			got = ""
			if r := invoke(t, byName[name], input); r.Code != tool.CodeInvalidArguments || got != "" {
				t.Errorf("%s %s: %s %s; sent %q", name, input, r.Status, r.Text(), got)
			}
		}
	}
	want := `{"$defs":{"order":{"properties":{"item":{"enum":["a",null],"type":["string","null"]},"parts":{"items":{"$ref":"#/$defs/order"},"type":"array"}},` +
		`"required":["item"],"type":"object"}},"additionalProperties":false,"properties":{"body":{"$ref":"#/$defs/order"}},"required":["body"],"type":"object"}`
	if diff := cmp.Diff(want, string(byName["shop_add"].Spec().InputSchema)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// Arguments must not change the path's segments.
func TestArgumentsDoNotLeadToAnotherPath(t *testing.T) {
	t.Parallel()
	found, err := newService(Config{Logger: zap.NewNop()}, Service{Name: "x", URL: "http://127.0.0.1"}).parse([]byte(`{"openapi":"3.1.0","paths":{"/v1/{a}{b}/c":{"get":{
		"parameters":[{"name":"a","in":"path","required":true,"schema":{"type":"string"}},{"name":"b","in":"path","required":true,"schema":{"type":"string"}}]}}}}`))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for input, want := range map[string]string{
		`{"a":"x","b":"."}`: "/v1/x./c", `{"a":"{b}","b":"y"}`: "/v1/%7Bb%7Dy/c", `{"a":".","b":"."}`: "", `{"a":"..","b":""}`: "", `{"a":"x/..","b":"/"}`: "/v1/x%2F..%2F/c",
	} {
		at, _, err := found[0].fill(json.RawMessage(input), http.Header{})
		got := ""
		if err == nil {
			got = at.EscapedPath()
		}
		if got != want {
			t.Errorf("%s: %q, %v; want %q", input, got, err, want)
		}
	}
}

func TestHostileDocumentsAreSurvived(t *testing.T) {
	t.Parallel()
	op := func(s string) string { return `{"openapi":"3.1.0","paths":{"/a":{"get":` + s + `}}}` }
	for _, doc := range []string{
		op(`7`), op(`{"parameters":7}`), op(`{"parameters":[{"$ref":"#/paths/~1a/get/parameters/0"}]}`), op(`{"requestBody":[]}`),
		op(`{"parameters":[{"name":"a","in":"query"},{"name":"a","in":"path"}]}`), op(`{"parameters":[{"name":"body","in":"query"}]}`),
		op(`{"parameters":[{"name":"a","in":"query","content":{}}]}`), op(`{"x-turnlog":{"effects":7}}`), op(`{"x-turnlog":{"effects":"some"}}`),
		op(`{"parameters":[{"name":"a","in":"query","schema":{"$ref":"#/nowhere"}}]}`),
		`{"openapi":"3.1.0","paths":{"/a":{"parameters":7,"get":{}}}}`,
		`{"openapi":"3.1.0"}`, `{"openapi":"3.1.0","paths":{"/a":{"trace":{}}}}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, doc) }))
		t.Cleanup(s.Close)
		if tools := offered(t, open(t, Config{Services: []Service{{Name: "x", URL: s.URL}}})); len(tools) != 0 {
			t.Errorf("%s offers %s", doc, tools[0].Spec().Name)
		}
	}
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`"/p%d":{"get":{"summary":%q}}`, i, strings.Repeat("x", 200)))
	}
	all := offered(t, open(t, Config{Services: []Service{{Name: "x", URL: serve(t, `{"openapi":"3.1.0","paths":{`+strings.Join(many, ",")+`}}`, nil).URL}}}))
	if len(all) < 100 || len(all) > 1200 {
		t.Errorf("%d of 5000 operations are on offer", len(all))
	}
}

// Operations that all refer to one large part would copy it as often.
func TestOperationsCopyOnlySoMuch(t *testing.T) {
	t.Parallel()
	large := `{"type":"object","description":"` + strings.Repeat("x", 1<<19) + `"}`
	for name, op := range map[string]string{
		"a body":     `{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/large"}}}}}`,
		"parameters": `{"parameters":[` + strings.Repeat(`{"$ref":"#/parameter"},`, 100) + `{"name":"q","in":"query"}]}`,
	} {
		var paths []string
		for i := range 100 {
			paths = append(paths, fmt.Sprintf(`"/p%d":{"post":%s}`, i, op))
		}
		body := `{"openapi":"3.1.0","paths":{` + strings.Join(paths, ",") + `},"large":` + large + `,"parameter":{"name":"p","in":"query","schema":` + large + `}}`
		core, log := observer.New(zap.WarnLevel)
		s := newService(Config{Logger: zap.New(core)}, Service{Name: "x", URL: "http://127.0.0.1"})
		found, err := s.parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		copied := 0
		for _, e := range found {
			copied += len(e.spec.InputSchema)
		}
		if omitted := log.Len(); copied > maxCopied || omitted+len(found) != 100 || omitted < 50 {
			t.Errorf("%s: %d operations with %d bytes, and %d omitted", name, len(found), copied, omitted)
		}
	}
}

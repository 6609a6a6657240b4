package gateway

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnlog/turnlog/gateway"
)

// described is the description of all gateways here: their settings do not change it.
var described struct {
	once sync.Once
	description
}

// description is the document of GET /openapi.json, against which every answer in these tests is checked.
type description struct {
	paths   *http.ServeMux // finds the path in the description
	doc     map[string]any
	schemas *jsonschema.Compiler

	mu sync.Mutex // a compiler serves one goroutine
}

func (d *description) read(t testing.TB, g *gateway.Gateway) {
	raw, err := g.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	d.doc, _ = doc.(map[string]any)
	d.paths, d.schemas = http.NewServeMux(), jsonschema.NewCompiler()
	for path := range at(d.doc, "paths") {
		d.paths.Handle(path, http.NotFoundHandler())
	}
	if err := d.schemas.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
}

// at returns the object in an object, by the names on the way to it.
func at(doc map[string]any, names ...string) map[string]any {
	for _, name := range names {
		doc, _ = doc[name].(map[string]any)
	}
	return doc
}

// check compares an answer to a request with its description.
func (d *description) check(t testing.TB, r *http.Request, a answer) {
	t.Helper()
	_, path := d.paths.Handler(r)
	method, status := strings.ToLower(r.Method), strconv.Itoa(a.status)
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	names := []string{"paths", path, method, "responses", status, "content", kind, "schema"}
	if at(d.doc, names[:3]...) == nil || !strings.HasSuffix(kind, "json") {
		return
	}
	if at(d.doc, names[:5]...) == nil {
		names[4] = "default"
	}
	if at(d.doc, names...) == nil {
		t.Errorf("%s %s: a %s with %s is not described: %s", r.Method, path, status, kind, a.body)
		return
	}
	for i, name := range names {
		names[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	got, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		t.Errorf("%s %s: %v: %s", r.Method, path, err, a.body)
		return
	}
	d.mu.Lock()
	schema, err := d.schemas.Compile("openapi.json#/" + strings.Join(names, "/"))
	d.mu.Unlock()
	if err == nil {
		err = schema.Validate(got)
	}
	if err != nil {
		t.Errorf("%s %s: a %s is not as described: %v\n%s", r.Method, path, status, err, a.body)
	}
}

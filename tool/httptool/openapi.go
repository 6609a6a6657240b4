package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// document is the part of an OpenAPI document that is read. Its first field distinguishes it from a manifest.
type document struct {
	OpenAPI string `json:"openapi"`
	Servers []struct {
		URL string `json:"url"`
	} `json:"servers"`
	Paths map[string]map[string]json.RawMessage `json:"paths"`
}

// operation is one method of one path.
type operation struct {
	method, path string

	ID          string           `json:"operationId"`
	Summary     string           `json:"summary"`
	Description string           `json:"description"`
	Parameters  []any            `json:"parameters"`
	Body        any              `json:"requestBody"`
	Turnlog     tool.Description `json:"x-turnlog"`

	err error
}

// String returns the operation's name if it has no ID.
func (o operation) String() string { return strings.ToLower(o.method) + strings.TrimRight(o.path, "/") }

// methods returns the methods of operations with their default effects.
func methods() map[string]string {
	return map[string]string{
		http.MethodGet: "read_only", http.MethodPut: "idempotent", http.MethodDelete: "idempotent", http.MethodPost: "none", http.MethodPatch: "none",
	}
}

// operations lists the operations, sorted by path and method.
func (d document) operations() iter.Seq[operation] {
	return func(yield func(operation) bool) {
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			item := d.Paths[path]
			var shared []any
			err := json.Unmarshal(item["parameters"], &shared)
			for _, method := range slices.Sorted(maps.Keys(methods())) {
				raw, ok := item[strings.ToLower(method)]
				if !ok {
					continue
				}
				o := operation{method: method, path: path}
				if item["parameters"] != nil {
					o.err = err
				}
				o.err = errors.Join(o.err, json.Unmarshal(raw, &o))
				o.Parameters = append(slices.Clone(shared), o.Parameters...)
				if !yield(o) {
					return
				}
			}
		}
	}
}

// parameter is a property of the input that is not in the body.
type parameter struct {
	Name     string         `json:"name"`
	In       string         `json:"in"` // path, query or header
	Required bool           `json:"required"`
	About    string         `json:"description"`
	Schema   any            `json:"schema"`
	Content  map[string]any `json:"content"`
	Explode  *bool          `json:"explode"`
}

// body is the description of a request's body.
type body struct {
	Required bool `json:"required"`
	Content  map[string]struct {
		Schema any `json:"schema"`
	} `json:"content"`
}

// tree is a whole document, with which references are resolved.
type tree struct {
	root any
	old  bool // version 3.0, whose schemas are not JSON schemas
	room int  // bytes that operations may still copy
}

// maxCopied is how many bytes of a document its operations may copy. Each may refer to all of it.
const maxCopied = 4 * maxDocument

var errCopied = fmt.Errorf("the operations up to it refer to more than %d MiB", maxCopied>>20)

// spend counts bytes that are copied, and returns an error if they are too many.
func (t *tree) spend(n int) error {
	if t.room -= n; t.room < 0 {
		return errCopied
	}
	return nil
}

func newTree(raw []byte, version string) (*tree, error) {
	t := &tree{old: strings.HasPrefix(version, "3.0"), room: maxCopied}
	if err := json.Unmarshal(raw, &t.root); err != nil {
		return nil, fmt.Errorf("its OpenAPI document: %w", err)
	}
	return t, nil
}

// bodyProperty is the property of an input that is the body.
const bodyProperty = "body"

// endpoint returns how an operation is called. It returns an error for one that cannot be a tool.
func (t *tree) endpoint(o operation) (*endpoint, error) {
	if o.err != nil {
		return nil, o.err
	}
	e := &endpoint{method: o.method, template: o.path}
	places := map[string]int{} // of parameters, by name
	properties, required := map[string]any{}, []string{}
	for _, raw := range o.Parameters {
		var p parameter
		if err := t.read(raw, &p); err != nil {
			return nil, fmt.Errorf("a parameter: %w", err)
		}
		if key := http.CanonicalHeaderKey(p.Name); p.In == "header" && (reserved(key) || key == "Authorization") {
			continue // OpenAPI says to ignore them
		}
		switch {
		case p.In != "path" && p.In != "query" && p.In != "header" && p.Required:
			return nil, fmt.Errorf("parameter %s is in a %s", p.Name, p.In)
		case p.In != "path" && p.In != "query" && p.In != "header":
			continue
		case p.Content != nil || p.Name == bodyProperty:
			return nil, fmt.Errorf("parameter %s cannot be a property of the input", p.Name)
		}
		switch i, again := places[p.Name]; {
		case again && e.parameters[i].In != p.In:
			return nil, fmt.Errorf("two parameters have the name %s", p.Name)
		case again: // that of the operation replaces that of its path
			e.parameters[i] = p
		default:
			places[p.Name] = len(e.parameters)
			e.parameters = append(e.parameters, p)
		}
		properties[p.Name] = described(p.Schema, p.About)
		if p.Required || p.In == "path" {
			required = append(required, p.Name)
		}
	}
	if o.Body != nil {
		var b body
		if err := t.read(o.Body, &b); err != nil {
			return nil, fmt.Errorf("the body: %w", err)
		}
		kind, ok := jsonOf(b)
		if !ok {
			return nil, errors.New("its body is not JSON")
		}
		e.bodyKind, properties[bodyProperty] = kind, described(b.Content[kind].Schema, "")
		if b.Required {
			required = append(required, bodyProperty)
		}
	}
	slices.Sort(required)
	input := map[string]any{"type": "object", "properties": properties, "required": slices.Compact(required), "additionalProperties": false}
	if err := t.bundle(input); err != nil {
		return nil, err
	}
	e.about = o.about()
	var err error
	if e.about.Input, err = json.Marshal(input); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	return e, nil
}

// about returns the description of the tool, which the operation's own extension changes.
func (o operation) about() tool.Description {
	d := o.Turnlog
	if d.Description == "" {
		d.Description = strings.TrimSpace(o.Summary + "\n" + o.Description)
	}
	if d.Description == "" {
		d.Description = o.method + " " + o.path
	}
	if d.Effects == "" {
		d.Effects = methods()[o.method]
	}
	return d
}

// jsonOf returns the media type of a body in JSON.
func jsonOf(b body) (kind string, ok bool) {
	for _, kind := range slices.Sorted(maps.Keys(b.Content)) {
		if plain, _, _ := strings.Cut(kind, ";"); plain == "application/json" || strings.HasSuffix(plain, "+json") {
			return kind, true
		}
	}
	return "", false
}

// described returns a schema with a description, unless it has one.
func described(schema any, about string) any {
	m, ok := schema.(map[string]any)
	if !ok {
		m = map[string]any{}
	}
	if about == "" || m["description"] != nil {
		return m
	}
	m = maps.Clone(m)
	m["description"] = about
	return m
}

// read decodes a part of the document, which may be a reference to another one.
func (t *tree) read(part, into any) error {
	for range maxReferences {
		if t.room < 0 {
			return errCopied
		}
		m, _ := part.(map[string]any)
		to, ok := m["$ref"].(string)
		if !ok {
			raw, err := json.Marshal(part)
			if err == nil {
				err = t.spend(len(raw))
			}
			if err == nil {
				err = json.Unmarshal(raw, into)
			}
			return err //nolint:wrapcheck // its callers name the part
		}
		var err error
		if part, err = t.follow(to); err != nil {
			return err
		}
	}
	return errors.New("its references are circular")
}

// maxReferences is how many references may follow one another.
const maxReferences = 16

// follow returns the value to which a reference leads.
func (t *tree) follow(to string) (any, error) {
	at, ok := strings.CutPrefix(to, "#/")
	if !ok {
		return nil, fmt.Errorf("reference %q is outside the document", to)
	}
	part := t.root
	for step := range strings.SplitSeq(at, "/") {
		m, _ := part.(map[string]any)
		if part, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]; !ok {
			return nil, fmt.Errorf("reference %q does not exist", to)
		}
	}
	return part, nil
}

// bundle makes a schema independent of the document: it copies the targets of references into $defs.
func (t *tree) bundle(schema map[string]any) error {
	defs := map[string]any{}
	adapted, err := t.adapt(schema, defs)
	if err != nil {
		return err
	}
	maps.Copy(schema, adapted.(map[string]any)) // adapt keeps the kind
	if len(defs) > 0 {
		schema["$defs"] = defs
	}
	return nil
}

// adapt returns a part of a schema with its references changed to lead to defs, to which it adds their targets.
func (t *tree) adapt(part any, defs map[string]any) (any, error) {
	if err := t.spend(sizeOf(part)); err != nil {
		return nil, err
	}
	switch part := part.(type) {
	case []any:
		out := make([]any, len(part))
		for i, x := range part {
			var err error
			if out[i], err = t.adapt(x, defs); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(part))
		for k, x := range part {
			var err error
			if out[k], err = t.adapt(x, defs); err != nil {
				return nil, err
			}
		}
		if t.old {
			modernize(out)
		}
		to, ok := part["$ref"].(string)
		if !ok {
			return out, nil
		}
		name := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(to, "#/"), "components/schemas/"), "/", ".")
		out["$ref"] = "#/$defs/" + name
		if _, done := defs[name]; done {
			return out, nil
		}
		defs[name] = true // it may refer to itself
		target, err := t.follow(to)
		if err == nil {
			defs[name], err = t.adapt(target, defs)
		}
		return out, err
	}
	return part, nil
}

// sizeOf returns approximately how many bytes a part has, without those in it.
func sizeOf(part any) int {
	n := 8
	switch part := part.(type) {
	case string:
		n += len(part)
	case map[string]any:
		for name := range part {
			n += len(name)
		}
	}
	return n
}

// modernize turns the special syntax of OpenAPI 3.0 into a JSON schema.
func modernize(schema map[string]any) {
	if nullable, ok := schema["nullable"].(bool); ok {
		delete(schema, "nullable")
		if kind, ok := schema["type"].(string); ok && nullable {
			schema["type"] = []any{kind, "null"}
		}
		if list, ok := schema["enum"].([]any); ok && nullable {
			schema["enum"] = append(slices.Clone(list), nil)
		}
	}
	for exclusive, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if strict, ok := schema[exclusive].(bool); ok {
			delete(schema, exclusive)
			if strict {
				schema[exclusive] = schema[limit]
				delete(schema, limit)
			}
		}
	}
}

package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/goccy/go-yaml/ast"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/schema"
)

// text is a string of the script, plain or a template.
type text struct {
	where string // which reply and field, for errors
	plain string
	tmpl  *template.Template // nil: plain
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (t *text) UnmarshalYAML(n ast.Node) error {
	var s str
	if err := s.UnmarshalYAML(n); err != nil {
		return err
	}
	*t = text{where: place(n), plain: string(s)}
	if !strings.Contains(t.plain, "{{") {
		return nil
	}
	var err error
	if t.tmpl, err = compile(t.where, t.plain); err != nil {
		return wrong(n.GetToken(), "%v", err)
	}
	return nil
}

// render returns the text for a request.
func (t text) render(b *budget, v view) (string, error) {
	if t.tmpl == nil {
		return t.plain, nil
	}
	tmpl, err := t.tmpl.Clone() // which has functions of its own
	if err != nil {
		return "", err //nolint:wrapcheck // impossible
	}
	out := output{budget: b, where: t.where}
	err = tmpl.Funcs(b.funcs()).Execute(&out, v)
	if err == nil {
		return out.buf.String(), nil
	}
	if b.ctx.Err() != nil {
		return "", context.Cause(b.ctx)
	}
	return "", err //nolint:wrapcheck // it says where
}

// view is the data of templates.
type view struct {
	Prompt  string
	Results []result
}

type result struct {
	Name    string
	Text    string
	IsError bool

	raw    json.RawMessage // the structured part, or the text
	budget *budget
}

// viewOf returns the last User item and the results after it.
func viewOf(transcript []content.Item, b *budget) view {
	var v view
	for _, it := range transcript {
		if it.Kind == content.User {
			v = view{Prompt: it.Text()}
		}
		for _, r := range it.Results() {
			v.Results = append(v.Results, result{Name: r.Name, Text: r.Text(), IsError: r.IsError, raw: rawOf(r), budget: b})
		}
	}
	return v
}

func rawOf(r content.ToolResult) json.RawMessage {
	for _, p := range r.Output {
		if p.Kind == content.StructuredKind {
			return p.Data
		}
	}
	return json.RawMessage(r.Text())
}

// String returns the fields that templates see.
func (r result) String() string { return fmt.Sprintf("{%s %s %t}", r.Name, r.Text, r.IsError) }

// JSON decodes the structured part of a result, or its text if it is JSON; nil: neither.
func (r result) JSON() (any, error) {
	if err := r.budget.spend(len(r.raw)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(r.raw))
	dec.UseNumber()
	var v any
	if schema.CheckJSON(r.raw) != nil || dec.Decode(&v) != nil || dec.More() {
		return nil, nil //nolint:nilnil,nilerr // it is not JSON
	}
	return plainNumbers(v), nil
}

// plainNumbers converts numbers to ints where possible, otherwise to floats, because
// templates compare only numbers of the same kind.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.Atoi(v.String()); err == nil {
			return i
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

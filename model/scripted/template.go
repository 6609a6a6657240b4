package scripted

import (
	"bytes"
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

func (t text) render(b *budget, v view) (string, error) {
	if t.tmpl == nil {
		return t.plain, nil
	}
	out := output{budget: b, where: t.where}
	if err := t.tmpl.Execute(&out, v); err != nil {
		return "", err //nolint:wrapcheck // it says where
	}
	return out.buf.String(), nil
}

// view is the data of templates. Its methods count what they return.
type view struct {
	prompt  string
	results []result
	budget  *budget
}

// Prompt returns the text of the last User item.
func (v view) Prompt() (string, error) { return v.prompt, v.budget.spend(len(v.prompt)) }

// Results returns the results since then.
func (v view) Results() ([]result, error) { return v.results, v.budget.spend(len(v.results)) }

type result struct {
	Name    string
	IsError bool

	text   string
	raw    json.RawMessage // the structured part, or the text
	budget *budget
}

// Text returns the text of the result.
func (r result) Text() (string, error) { return r.text, r.budget.spend(len(r.text)) }

// viewOf returns the last User item and the results after it.
func viewOf(transcript []content.Item, b *budget) view {
	v := view{budget: b}
	for _, it := range transcript {
		if it.Kind == content.User {
			v.prompt, v.results = it.Text(), nil
		}
		for _, r := range it.Results() {
			v.results = append(v.results, result{Name: r.Name, IsError: r.IsError, text: r.Text(), raw: rawOf(r), budget: b})
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
func (r result) String() string { return fmt.Sprintf("{%s %s %t}", r.Name, r.text, r.IsError) }

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

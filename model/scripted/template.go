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
	if t.tmpl, err = template.New(t.where).Option("missingkey=error").Parse(t.plain); err != nil {
		return wrong(n.GetToken(), "%v", err)
	}
	return nil
}

// render returns the text for a request.
func (t text) render(ctx context.Context, v view) (string, error) {
	if t.tmpl == nil {
		return t.plain, nil
	}
	out := output{ctx: ctx, where: t.where}
	err := t.tmpl.Execute(&out, v)
	if err == nil {
		return out.buf.String(), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", err //nolint:wrapcheck // it says where
}

// output is the output of a template. It ends an endless template when the call is
// canceled or the output is too long.
type output struct {
	ctx context.Context //nolint:containedctx // io.Writer has no context
	buf bytes.Buffer

	where string // for errors
}

func (s *output) Write(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	if s.buf.Len()+len(p) > maxSize {
		return 0, fmt.Errorf("%s wrote more than 1 MiB", s.where)
	}
	return s.buf.Write(p) //nolint:wrapcheck // never fails
}

// view is the data of templates.
type view struct {
	Prompt  string
	Results []result
}

type result struct {
	Name    string
	Text    string
	JSON    any // nil: none
	IsError bool
}

// viewOf returns the last User item and the results after it.
func viewOf(transcript []content.Item) view {
	var v view
	for _, it := range transcript {
		if it.Kind == content.User {
			v = view{Prompt: it.Text()}
		}
		for _, r := range it.Results() {
			v.Results = append(v.Results, result{Name: r.Name, Text: r.Text(), JSON: jsonOf(r), IsError: r.IsError})
		}
	}
	return v
}

// jsonOf decodes the structured part of a result, or its text if it is JSON.
func jsonOf(r content.ToolResult) any {
	raw := json.RawMessage(r.Text())
	for _, p := range r.Output {
		if p.Kind == content.StructuredKind {
			raw = p.Data
			break
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return nil
	}
	return plainNumbers(v)
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

package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/goccy/go-yaml/ast"

	"github.com/turnlog/turnlog/content"
)

// text is a string of the script: plain, or a template.
type text struct {
	where string // which reply and field, for errors
	plain string
	tmpl  *template.Template // nil: plain
}

// template reads a string node and parses what it holds.
func (d document) template(n ast.Node, where string) (text, error) {
	s, err := d.text(n, where)
	if err != nil || !strings.Contains(s, "{{") {
		return text{where: where, plain: s}, err
	}
	tmpl, err := template.New(where).Option("missingkey=error").Parse(s)
	if err != nil {
		line, message := templateLine(err, where)
		return text{}, d.errorAtLine(n, line, where+": "+message)
	}
	return text{where: where, tmpl: tmpl}, nil
}

// errorAtLine reports an error in line, counted from 1, of the text of n. Only in
// a literal block are the lines of the text those of the file.
func (d document) errorAtLine(n ast.Node, line int, message string) error {
	block, ok := n.(*ast.LiteralNode)
	if !ok || line == 0 || !strings.HasPrefix(block.Start.Value, "|") {
		return d.errorf(n, "%s", message)
	}
	return fmt.Errorf("script %s:%d: %s", d.name, block.Start.Position.Line+line, message)
}

// templateLine takes "template: where:line: message" apart, or the same with a
// column, as it is when a template runs.
func templateLine(err error, where string) (line int, message string) {
	message = err.Error()
	rest, ok := strings.CutPrefix(message, "template: "+where+":")
	if !ok {
		return 0, message
	}
	digits, rest, _ := strings.Cut(rest, ":")
	line, err = strconv.Atoi(digits)
	if err != nil {
		return 0, message
	}
	if column, after, ok := strings.Cut(rest, ":"); ok {
		if _, err := strconv.Atoi(column); err == nil {
			rest = after
		}
	}
	rest = strings.TrimPrefix(strings.TrimSpace(rest), fmt.Sprintf("executing %q ", where))
	return line, rest
}

// render returns the text for one request.
func (t text) render(ctx context.Context, v view) (string, error) {
	if t.tmpl == nil {
		return t.plain, nil
	}
	out := sheet{ctx: ctx}
	err := t.tmpl.Execute(&out, v)
	if err == nil {
		return out.buf.String(), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	line, message := templateLine(err, t.where)
	return "", fmt.Errorf("%s, line %d: %s", t.where, max(line, 1), message)
}

// sheet is what a template writes on. A template that loops for ever ends when
// the call is cancelled or its sheet is full.
type sheet struct {
	ctx context.Context //nolint:containedctx // io.Writer leaves no other way in
	buf bytes.Buffer
}

func (s *sheet) Write(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	if s.buf.Len()+len(p) > maxSize {
		return 0, errors.New("wrote more than 1 MiB")
	}
	return s.buf.Write(p) //nolint:wrapcheck // a buffer gives none
}

// view is what templates see.
type view struct {
	Prompt  string
	Results []result
}

type result struct {
	Name    string
	Text    string
	JSON    any // nil: the tool returned none
	IsError bool
}

// viewOf collects the last User item and the results after it.
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

// jsonOf decodes the structured part of a result, or its text if that is JSON.
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

// plainNumbers turns whole numbers into ints and others into floats, because
// templates compare numbers only with their own kind.
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

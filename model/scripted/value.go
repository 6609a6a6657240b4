package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// value is a JSON value whose strings may be templates. It keeps the order of fields.
type value struct {
	kind   valueKind
	raw    json.RawMessage // scalar
	text   text            // str
	values []value         // list, object
	names  []string        // object, parallel to values
}

type valueKind int

const (
	scalar valueKind = iota
	str
	list
	object
)

// value converts a node to a JSON value.
func (d document) value(n ast.Node, where string, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, d.errorf(n, "%s: nests deeper than %d", where, maxDepth)
	}
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		t, err := d.template(n, where)
		return value{kind: str, text: t}, err
	case *ast.NullNode:
		return value{raw: json.RawMessage("null")}, nil
	case *ast.BoolNode:
		return d.scalar(n, where, n.Value)
	case *ast.IntegerNode:
		return d.scalar(n, where, n.Value)
	case *ast.FloatNode:
		return d.scalar(n, where, n.Value)
	case *ast.SequenceNode:
		return d.listValue(n, where, depth)
	case *ast.MappingNode:
		return d.objectValue(n, where, depth)
	}
	return value{}, d.wrongType(n, where, "a plain value, list or mapping")
}

func (d document) scalar(n ast.Node, where string, v any) (value, error) {
	if f, ok := v.(float64); v == nil || ok && math.IsInf(f, 0) {
		return value{}, d.errorf(n, "%s: the number is too large", where)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return value{}, d.errorf(n, "%s: %v", where, err)
	}
	return value{raw: raw}, nil
}

func (d document) listValue(n *ast.SequenceNode, where string, depth int) (value, error) {
	out := value{kind: list}
	for i, element := range n.Values {
		v, err := d.value(element, where+"["+strconv.Itoa(i)+"]", depth+1)
		if err != nil {
			return value{}, err
		}
		out.values = append(out.values, v)
	}
	return out, nil
}

func (d document) objectValue(n *ast.MappingNode, where string, depth int) (value, error) {
	out := value{kind: object}
	err := d.each(n, where, func(_ ast.Node, name string, node ast.Node) error {
		v, err := d.value(node, where+"."+name, depth+1)
		out.names = append(out.names, name)
		out.values = append(out.values, v)
		return err
	})
	return out, err
}

// render returns the JSON for a request.
func (v value) render(ctx context.Context, data view) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := v.write(ctx, &b, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (v value) write(ctx context.Context, b *bytes.Buffer, data view) error {
	switch v.kind {
	case scalar:
		b.Write(v.raw)
	case str:
		s, err := v.text.render(ctx, data)
		if err != nil {
			return err
		}
		writeString(b, s)
	case list:
		return v.writeAll(ctx, b, data, "[", "]")
	case object:
		return v.writeAll(ctx, b, data, "{", "}")
	}
	return nil
}

func (v value) writeAll(ctx context.Context, b *bytes.Buffer, data view, open, end string) error {
	b.WriteString(open)
	for i, element := range v.values {
		if i > 0 {
			b.WriteByte(',')
		}
		if v.kind == object {
			writeString(b, v.names[i])
			b.WriteByte(':')
		}
		if err := element.write(ctx, b, data); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

// writeString writes s as JSON without escaping <, > and &.
func writeString(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) == nil { // always, for a string
		b.Truncate(b.Len() - 1) // the newline
	}
}

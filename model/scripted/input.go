package scripted

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/turnlog/turnlog/internal/yamltext"
)

// input is the input of a call: JSON in which strings may be templates. It keeps the order
// of fields.
type input []piece

type piece struct {
	json string // used if text is nil
	text *text
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (in *input) UnmarshalYAML(n ast.Node) error {
	if _, ok := n.(*ast.MappingNode); !ok {
		return wrong(n.GetToken(), "%s: want a mapping", place(n))
	}
	return in.add(n, 0)
}

func (in *input) add(n ast.Node, depth int) error {
	if depth > yamltext.MaxDepth {
		return wrong(n.GetToken(), "it nests deeper than %d", yamltext.MaxDepth)
	}
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		t := &text{}
		*in = append(*in, piece{text: t})
		return t.UnmarshalYAML(n)
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		raw, err := json.Marshal(n.(ast.ScalarNode).GetValue())
		in.json(string(raw))
		return err //nolint:wrapcheck // impossible: these are JSON
	case *ast.SequenceNode:
		in.json("[")
		for i, element := range n.Values {
			if i > 0 {
				in.json(",")
			}
			if err := in.add(element, depth+1); err != nil {
				return err
			}
		}
		in.json("]")
		return nil
	case *ast.MappingNode:
		in.json("{")
		for i, entry := range n.Values {
			if i > 0 {
				in.json(",")
			}
			in.json(quoted(entry.Key.(*ast.StringNode).Value) + ":") // a string: the checker has seen it
			if err := in.add(entry.Value, depth+1); err != nil {
				return err
			}
		}
		in.json("}")
		return nil
	}
	return wrong(n.GetToken(), "%s: want a plain value, list or mapping", place(n))
}

func (in *input) json(raw string) { *in = append(*in, piece{json: raw}) }

func (in input) render(budget *budget, data view) (json.RawMessage, error) {
	if in == nil {
		return json.RawMessage("{}"), nil
	}
	var b bytes.Buffer
	for _, p := range in {
		raw := p.json
		if p.text != nil {
			s, err := p.text.render(budget, data)
			if err != nil {
				return nil, err
			}
			raw = quoted(s)
		}
		b.WriteString(raw)
	}
	return b.Bytes(), nil
}

// quoted returns s as JSON without escaping <, > and &.
func quoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // never fails for a string
	return strings.TrimSuffix(b.String(), "\n")
}

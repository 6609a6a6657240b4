package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/turnlog/turnlog/internal/yamltext"
)

// tree is a YAML document as JSON values, with the positions of its parts by path, like
// $.tools[0].route.
type tree struct {
	value  any
	values map[string]*token.Position
	keys   map[string]*token.Position
}

// position returns the position of a value, or of the nearest value that contains it; nil: unknown.
func (t *tree) position(path string) *token.Position {
	for path != "" && t.values[path] == nil {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return t.values[path]
}

// parse reads the file as YAML and reports syntax errors.
func (r *reader) parse(data []byte) {
	if len(data) > maxSize {
		r.report("", "%d bytes, more than %d", len(data), maxSize)
		return
	}
	// Byte order marks and Windows' line ends must not change a version.
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n"))
	root, err := yamltext.Parse(data)
	switch {
	case errors.Is(err, yamltext.ErrEmpty):
		r.report("", "is empty: give at least a model, as in model: demo")
		return
	case err != nil:
		r.syntax(err)
		return
	}
	r.tree = tree{values: make(map[string]*token.Position), keys: make(map[string]*token.Position)}
	r.tree.value = r.convert(root, "$", 0)
}

// convert turns a node into the value that encoding/json would decode.
func (r *reader) convert(node ast.Node, path string, depth int) any {
	if depth > yamltext.MaxDepth {
		r.problemAt(begin(node), path, "lists and mappings nest deeper than %d", yamltext.MaxDepth)
		return nil
	}
	if node == nil {
		return nil
	}
	r.tree.values[path] = begin(node)
	switch n := node.(type) {
	case *ast.MappingNode:
		return r.convertMap(n, path, depth)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, v := range n.Values {
			list[i] = r.convert(v, at(path, i), depth+1)
		}
		return list
	case *ast.IntegerNode:
		return r.convertInteger(n, path)
	case *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.(ast.ScalarNode).GetValue()
	case *ast.LiteralNode:
		return n.Value.Value
	}
	return node.GetToken().Value
}

func (r *reader) convertMap(n *ast.MappingNode, path string, depth int) map[string]any {
	all := make(map[string]any)
	for _, v := range n.Values {
		key := v.Key.GetToken().Value
		here := path + "." + key
		r.tree.keys[here] = v.Key.GetToken().Position
		all[key] = r.convert(v.Value, here, depth+1)
	}
	return all
}

// convertInteger refuses numbers that YAML versions read differently, like 010.
func (r *reader) convertInteger(n *ast.IntegerNode, path string) any {
	written := n.GetToken().Value
	digits := strings.ReplaceAll(strings.TrimPrefix(written, "+"), "_", "")
	i, err := strconv.ParseInt(digits, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		r.report(path, "%s: the number is too large", written)
	} else if err != nil || strconv.FormatInt(i, 10) != digits {
		r.report(path, "%s: write the number in decimal digits, without a leading 0", written)
	}
	return i
}

func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func begin(node ast.Node) *token.Position {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken().Position
	}
	return node.GetToken().Position
}

func (r *reader) problemAt(pos *token.Position, path, format string, args ...any) {
	p := Problem{File: r.file, Path: path, Message: fmt.Sprintf(format, args...)}
	if pos != nil {
		p.Line, p.Column = pos.Line, pos.Column
	}
	r.problems = append(r.problems, p)
}

// syntax reports an error of the YAML parser.
func (r *reader) syntax(err error) {
	y, ok := errors.AsType[yaml.Error](err)
	if !ok {
		r.report("", "not YAML: %v", err)
		return
	}
	message := y.GetMessage()
	for _, advice := range []struct{ says, do string }{
		{"found character '\t'", "indent with spaces, YAML allows no tabs"},
		{"mapping value is not allowed", "if a text contains \": \", quote it; otherwise check the indentation"},
		{"value is not allowed in this context", "check the indentation"},
		{"non-map value", "if this belongs to the text or list above, indent it further than its key"},
	} {
		if strings.Contains(message, advice.says) {
			message += ": " + advice.do
			break
		}
	}
	var pos *token.Position
	if t := y.GetToken(); t != nil {
		pos = t.Position
	}
	r.problemAt(pos, "", "%s", message)
}

package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxSize  = 1 << 20
	maxDepth = 64 // of nested lists and mappings
)

// document is a YAML document. Errors of its methods start with the name of the script,
// the line and the column.
type document struct {
	name string
}

// fieldFunc handles the value of a field in a mapping.
type fieldFunc = func(value ast.Node) error

func (d document) errorf(n ast.Node, format string, args ...any) error {
	var at *token.Position
	if t := n.GetToken(); t != nil {
		at = t.Position
	}
	return d.errorAt(at, fmt.Sprintf(format, args...))
}

func (d document) errorAt(at *token.Position, message string) error {
	if at == nil {
		return fmt.Errorf("script %s: %s", d.name, message)
	}
	return fmt.Errorf("script %s:%d:%d: %s", d.name, at.Line, at.Column, message)
}

// parse parses the document in data. It returns nil if data is empty.
func (d document) parse(data []byte) (ast.Node, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("script %s: %d bytes, at most %d", d.name, len(data), maxSize)
	}
	if bad := invalidUTF8(data); bad >= 0 {
		return nil, fmt.Errorf("script %s:%d: not UTF-8", d.name, 1+bytes.Count(data[:bad], []byte("\n")))
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(data), "\ufeff"))
	if at := tooDeep(tokens); at != nil {
		return nil, d.errorAt(at, fmt.Sprintf("lists and mappings nest deeper than %d", maxDepth))
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, d.syntax(err)
	}
	if len(file.Docs) == 0 {
		return nil, nil
	}
	if len(file.Docs) > 1 {
		return nil, d.second(file.Docs[1])
	}
	return file.Docs[0].Body, nil
}

func (d document) second(doc *ast.DocumentNode) error {
	var at *token.Position
	if doc.Start != nil {
		at = doc.Start.Position
	}
	return d.errorAt(at, "a script is one document, but a second one begins here")
}

// syntax returns the position and message of the parser's error, which has several
// lines.
func (d document) syntax(err error) error {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return d.errorAt(e.GetToken().Position, e.GetMessage())
	}
	return fmt.Errorf("script %s: %w", d.name, err)
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// tooDeep returns the position of brackets or list entries that nest too deeply on one
// line, for which the parser would take minutes. Nesting by indentation is harmless.
func tooDeep(tokens token.Tokens) *token.Position {
	brackets, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.MappingStartType, token.SequenceStartType:
			brackets++
			entries = 0
		case token.MappingEndType, token.SequenceEndType:
			brackets--
			entries = 0
		default:
			entries = 0
		}
		if brackets > maxDepth || entries > maxDepth {
			return t.Position
		}
	}
	return nil
}

// mapping passes each field of n to its function.
func (d document) mapping(n ast.Node, what string, known map[string]fieldFunc) error {
	return d.each(n, what, func(key ast.Node, name string, value ast.Node) error {
		set, ok := known[name]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			return d.errorf(key, "%s has no field %q: it has %s", what, name, strings.Join(names, ", "))
		}
		return set(value)
	})
}

// each visits the entries of a mapping. Keys must be distinct strings.
func (d document) each(n ast.Node, what string, visit func(key ast.Node, name string, value ast.Node) error) error {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return d.wrongType(n, what, "a mapping")
	}
	seen := make(map[string]bool, len(m.Values))
	for _, entry := range m.Values {
		key, ok := entry.Key.(*ast.StringNode)
		if !ok {
			return d.errorf(entry.Key, "%s: keys are strings: put %q in quotes", what, entry.Key.String())
		}
		if seen[key.Value] {
			return d.errorf(key, "%s: duplicate key %q", what, key.Value)
		}
		seen[key.Value] = true
		if err := visit(key, key.Value, entry.Value); err != nil {
			return err
		}
	}
	return nil
}

func (d document) list(n ast.Node, what string) ([]ast.Node, error) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, d.wrongType(n, what, "a list")
	}
	return s.Values, nil
}

func (d document) text(n ast.Node, what string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	}
	return "", d.wrongType(n, what, "a string")
}

// count returns a nonnegative integer.
func (d document) count(n ast.Node, what string) (int64, error) {
	v, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, d.wrongType(n, what, "a whole number")
	}
	switch i := v.Value.(type) {
	case int64:
		if i >= 0 {
			return i, nil
		}
	case uint64:
		if i <= 1<<53 {
			return int64(i), nil
		}
	}
	return 0, d.errorf(n, "%s: %s is out of range: want 0 or more, at most 2^53", what, v.Token.Value)
}

func (d document) duration(n ast.Node, what string) (time.Duration, error) {
	s, err := d.text(n, what)
	if err != nil {
		return 0, d.wrongType(n, what, "a duration like 250ms or 2s")
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return 0, d.errorf(n, "%s: %q is not a duration: write it like 250ms or 2s", what, s)
	}
	return v, nil
}

func (d document) boolean(n ast.Node, what string) (bool, error) {
	v, ok := n.(*ast.BoolNode)
	if !ok {
		return false, d.wrongType(n, what, "true or false")
	}
	return v.Value, nil
}

func (d document) wrongType(n ast.Node, what, want string) error {
	return d.errorf(n, "%s: want %s, not %s", what, want, kindOf(n))
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias"
	case *ast.TagNode:
		return "a tag"
	}
	return "something else"
}

package scripted

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/turnlog/turnlog/internal/yamltext"
)

const maxSize = 1 << 20

// parse parses a script. Its errors have one line that begins with the name, the line and
// the column.
func parse(name string, data []byte) (script, error) {
	var s script
	err := s.decode(data)
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		at, message := e.GetToken().Position, e.GetMessage()
		if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
			message = fmt.Sprintf("want a %s", typed.DstType)
		}
		return s, fmt.Errorf("script %s:%d:%d: %s", name, at.Line, at.Column, message)
	}
	if err != nil {
		return s, fmt.Errorf("script %s: %w", name, err)
	}
	return s, nil
}

func (s *script) decode(data []byte) error {
	if len(data) > maxSize {
		return fmt.Errorf("%d bytes, at most %d", len(data), maxSize)
	}
	root, err := yamltext.Parse(data)
	switch {
	case errors.Is(err, yamltext.ErrEmpty):
		return errors.New("the file is empty: write replies: with at least one reply")
	case err != nil:
		return err
	}
	var c checker
	if ast.Walk(&c, root); c.err != nil {
		return c.err
	}
	if err := yamltext.Value(root, s, yaml.Strict()); err != nil {
		return err
	}
	return s.check(root)
}

type checker struct{ err error }

// Visit implements ast.Visitor.
func (c *checker) Visit(n ast.Node) ast.Visitor {
	if n, ok := n.(*ast.MappingValueNode); ok {
		if _, ok := n.Key.(*ast.StringNode); !ok {
			c.err = wrong(n.Key.GetToken(), "keys are strings: put %q in quotes", n.Key)
			return nil
		}
	}
	return c
}

func wrong(t *token.Token, format string, args ...any) error {
	return &yaml.SyntaxError{Token: t, Message: fmt.Sprintf(format, args...)}
}

// place names the field of a node in errors, as in replies[0].text.
func place(n ast.Node) string { return strings.TrimPrefix(n.GetPath(), "$.") }

// str is a string in the script. Other values, such as numbers, need quotes.
type str string

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *str) UnmarshalYAML(n ast.Node) error {
	switch n := n.(type) {
	case *ast.StringNode:
		*s = str(n.Value)
	case *ast.LiteralNode:
		*s = str(n.Value.Value)
	default:
		return wrong(n.GetToken(), "%s: want a string", place(n))
	}
	return nil
}

// count is a whole number, at least 0.
type count int64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (c *count) UnmarshalYAML(n ast.Node) error {
	if i, ok := n.(*ast.IntegerNode); ok {
		if v, err := strconv.ParseInt(fmt.Sprint(i.Value), 10, 64); err == nil && v >= 0 {
			*c = count(v)
			return nil
		}
	}
	return wrong(n.GetToken(), "%s: want a whole number, at least 0", place(n))
}

// duration is a time.Duration, as in 250ms.
type duration time.Duration

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	var s str
	_ = s.UnmarshalYAML(n) // otherwise empty, which is no duration
	v, err := time.ParseDuration(string(s))
	if err != nil || v < 0 {
		return wrong(n.GetToken(), "%s: want a duration like 250ms or 2s", place(n))
	}
	*d = duration(v)
	return nil
}

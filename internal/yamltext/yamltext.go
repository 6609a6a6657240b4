// Package yamltext reads the YAML that people write: one document, without features that can make a small document large.
//
// All YAML files are read here, so all have the same bounds. Aliases of aliases can take any amount of memory, so anchors,
// aliases and tags are refused. The parser takes minutes for a few kilobytes of nested brackets, so brackets are counted among
// the tokens first. Nesting by indentation is no problem for the parser.
package yamltext

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxDepth is how deep brackets, and list entries on one line, may nest.
const MaxDepth = 64

// ErrEmpty is returned for a text that has only comments.
var ErrEmpty = errors.New("the file is empty")

// ErrBroke is returned for a text at which the parser panicked.
var ErrBroke = errors.New("the YAML cannot be parsed")

// Decode reads a document into a value. It returns the errors of Parse, and errors of the YAML library, which also have
// the place of the problem.
func Decode(text []byte, into any, opts ...yaml.DecodeOption) error {
	root, err := Parse(text)
	if err != nil {
		return err
	}
	return Value(root, into, opts...)
}

// Value is Decode for a document that was parsed.
func Value(root ast.Node, into any, opts ...yaml.DecodeOption) (err error) {
	defer recovered(&err)
	return placed(yaml.NodeToValue(root, into, opts...))
}

// Parse returns the tree of a document. It returns ErrEmpty, ErrBroke, or an error that wraps a *yaml.SyntaxError, which
// has the place of the problem.
func Parse(text []byte) (root ast.Node, err error) {
	defer recovered(&err)
	for i, line := range bytes.Split(text, []byte("\n")) {
		if bytes.IndexByte(line, 0) >= 0 || !utf8.Valid(line) {
			return nil, wrong(&token.Token{Position: &token.Position{Line: i + 1, Column: 1}}, "not UTF-8 text: save the file as UTF-8")
		}
	}
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(text, []byte("\ufeff"))))
	if err := bounded(tokens); err != nil {
		return nil, err
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, placed(err)
	}
	switch {
	case len(tree.Docs) > 1:
		return nil, wrong(tree.Docs[1].Start, "a file is one document, but a second one begins here")
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil || tree.Docs[0].Body.Type() == ast.NullType:
		return nil, ErrEmpty
	}
	return tree.Docs[0].Body, nil
}

// bounded returns an error for tokens that could expand to much more data.
func bounded(tokens token.Tokens) error {
	brackets, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType:
			return wrong(t, "anchors, aliases and tags of YAML are refused: quote a text that begins with &, * or !")
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
		if brackets > MaxDepth || entries > MaxDepth {
			return wrong(t, "lists and mappings nest deeper than %d", MaxDepth)
		}
	}
	return nil
}

func wrong(t *token.Token, format string, args ...any) error {
	return placed(&yaml.SyntaxError{Token: t, Message: fmt.Sprintf(format, args...)})
}

// placed returns an error of the YAML library with its place, and without the text around it, which may be long or secret.
func placed(err error) error {
	if _, ok := errors.AsType[yaml.Error](err); !ok {
		return err
	}
	return &terse{err}
}

type terse struct{ err error }

func (t *terse) Error() string { return yaml.FormatError(t.err, false, false) }
func (t *terse) Unwrap() error { return t.err }

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", ErrBroke, p)
	}
}

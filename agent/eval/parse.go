package eval

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/internal/yamldepth"
)

// maxSize limits a suite's file.
const maxSize = 1 << 20

// Load reads a suite in YAML and checks it. Each line of its error begins with the file, the line and the column.
func Load(file string) (*Suite, error) {
	data, err := textfile.ReadFile(file, maxSize)
	if err != nil {
		return nil, fmt.Errorf("suite: %w", err)
	}
	s := &Suite{Folder: filepath.Dir(file)}
	err = wire.Safely(func() error { return s.decode(file, data) })
	if errors.Is(err, wire.ErrBroke) {
		err = fmt.Errorf("%s: not YAML: %w", file, err)
	}
	s.Name = cmp.Or(s.Name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	return s, err
}

func (s *Suite) decode(file string, data []byte) error {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return fmt.Errorf("%s: not UTF-8 text", file)
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(data), "\ufeff"))
	if i := slices.IndexFunc(tokens, refers); i >= 0 { // aliases of aliases take any memory
		return wrong(file, tokens[i], "a suite has no anchors, aliases and tags: quote a text that begins with &, * or !")
	}
	if t := yamldepth.TooDeep(tokens); t != nil {
		return wrong(file, t, "lists and mappings nest deeper than %d", yamldepth.Max)
	}
	tree, err := parser.Parse(tokens, 0)
	switch {
	case err != nil:
		return located(file, err)
	case len(tree.Docs) > 1:
		return wrong(file, tree.Docs[1].Start, "a suite is one document, but a second one begins here")
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil || tree.Docs[0].Body.Type() == ast.NullType:
		return fmt.Errorf("%s: the suite is empty: write cases: [{name: …, prompt: …, checks: […]}]", file)
	}
	if err := yaml.NodeToValue(tree.Docs[0].Body, s, yaml.Strict()); err != nil {
		return located(file, err)
	}
	var c checker
	c.suite(s)
	for i, err := range c {
		p, _ := errors.AsType[Problem](err)
		c[i] = wrong(file, at(tree, p.Path), "%w", p)
	}
	return errors.Join(c...)
}

func refers(t *token.Token) bool {
	return t.Type == token.AnchorType || t.Type == token.AliasType || t.Type == token.TagType
}

// at returns the place of a value, or of the nearest one that holds it.
func at(tree *ast.File, path string) *token.Token {
	for path != "" {
		if p, err := yaml.PathString(path); err == nil {
			if n, err := p.FilterFile(tree); err == nil && n != nil {
				if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
					return m.Values[0].Key.GetToken()
				}
				return n.GetToken()
			}
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return nil
}

func wrong(file string, t *token.Token, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if t == nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s:%d:%d: %w", file, t.Position.Line, t.Position.Column, err)
}

// located words an error of the YAML library.
func located(file string, err error) error {
	y, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", file, err)
	}
	message := y.GetMessage()
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		message = "want a " + cmp.Or(map[reflect.Kind]string{reflect.Int: "whole number", reflect.Int64: "whole number", reflect.Float64: "number"}[typed.DstType.Kind()], typed.DstType.Kind().String())
	}
	if unknown, ok := errors.AsType[*yaml.UnknownFieldError](err); ok {
		key := unknown.Token.Value
		hint := nearest.Hint(key, slices.Concat(keys(Suite{}), keys(Case{}), checkNames(), keys(Calls{}), keys(Judge{})))
		message = fmt.Sprintf("unknown field %q%s", key, cmp.Or(hint, ": checks are "+strings.Join(checkNames(), ", ")))
	}
	return wrong(file, y.GetToken(), "%s", message)
}

// keys are the names of a struct's fields in YAML.
func keys(of any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name := f.Tag.Get("yaml"); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func checkNames() []string { return keys(Check{}) }

// kinds are the names of the fields that are set.
func (c Check) kinds() (set []string) {
	v := reflect.ValueOf(c)
	for i, name := range checkNames() {
		if !v.Field(i).IsZero() {
			set = append(set, name)
		}
	}
	return set
}

package eval

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/yamltext"
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
	err = s.decode(file, data)
	s.Name = cmp.Or(s.Name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	return s, err
}

func (s *Suite) decode(file string, data []byte) error {
	root, err := yamltext.Parse(data)
	switch {
	case errors.Is(err, yamltext.ErrEmpty):
		return fmt.Errorf("%s: the suite is empty: write cases: [{name: …, prompt: …, checks: […]}]", file)
	case err != nil:
		return located(file, err)
	}
	if err := yamltext.Value(root, s, yaml.Strict()); err != nil {
		return located(file, err)
	}
	var c checker
	c.suite(s)
	for i, err := range c {
		p, _ := errors.AsType[Problem](err)
		c[i] = wrong(file, at(root, p.Path), "%w", p)
	}
	return errors.Join(c...)
}

// at returns the place of a value, or of the nearest value that contains it.
func at(root ast.Node, path string) *token.Token {
	for path != "" {
		if p, err := yaml.PathString(path); err == nil {
			if n, err := p.FilterNode(root); err == nil && n != nil {
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

// located returns an error of the YAML library with its place in the file.
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

// keys returns the YAML names of a struct's fields.
func keys(of any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name := f.Tag.Get("yaml"); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func checkNames() []string { return keys(Check{}) }

// kinds returns the names of the fields that are set, and the value of the last one.
func (c Check) kinds() (set []string, want any) {
	v := reflect.ValueOf(c)
	for i, name := range checkNames() {
		if !v.Field(i).IsZero() {
			set, want = append(set, name), v.Field(i).Interface()
		}
	}
	return set, want
}

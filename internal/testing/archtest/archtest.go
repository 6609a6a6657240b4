// Package archtest reads a module's source and reports where its shape departs
// from what was agreed: which package may import which, what must be
// documented, what a file may hold.
//
// The one idea: the agreement is data. A [Table] lists the packages with their
// levels, the [Fence]s around dependencies and the [Diet]s of single packages;
// [CheckImports] compares it with the source and returns every [Violation] at
// once, so that one run shows the whole list. [CheckDocs] and [CheckShape] hold
// the rules that need no table.
//
// It reads syntax only: no type checking, no go command, no network. Folders
// named testdata or vendor, hidden ones and nested modules are not part of the
// module. It does not format, and it repeats nothing that the compiler refuses,
// such as import cycles.
package archtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the parsed source of one Go module.
type Module struct {
	Path     string    // the module path, as go.mod declares it
	Packages []Package // by path
}

// Package is one folder of Go files.
type Package struct {
	Path  string // relative to the module's root; "." is the root itself
	Name  string // as declared, without the suffix of an external test
	Files []File // by path
}

// File is one parsed Go file.
type File struct {
	Path   string // relative to the module's root
	Test   bool   // the name ends in _test.go
	Lines  int
	Syntax *ast.File

	fset *token.FileSet
}

// Violation is one departure from a rule.
type Violation struct {
	File string // a file, or the folder of a package
	Line int    // 0: the file or folder as a whole
	Text string
}

// String renders v as file:line: text.
func (v Violation) String() string {
	if v.Line == 0 {
		return v.File + ": " + v.Text
	}
	return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Text)
}

// Load parses the module whose go.mod lies at the root of fsys. It returns an
// error when there is no go.mod or a Go file does not parse.
func Load(fsys fs.FS) (*Module, error) {
	name, err := modulePath(fsys)
	if err != nil {
		return nil, err
	}
	l := loader{fsys: fsys, fset: token.NewFileSet(), byPath: make(map[string]*Package)}
	if err := fs.WalkDir(fsys, ".", l.visit); err != nil {
		return nil, fmt.Errorf("load module %s: %w", name, err)
	}
	m := &Module{Path: name}
	for _, p := range l.byPath {
		m.Packages = append(m.Packages, *p)
	}
	slices.SortFunc(m.Packages, func(a, b Package) int { return cmp.Compare(a.Path, b.Path) })
	return m, nil
}

func modulePath(fsys fs.FS) (string, error) {
	src, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return "", fmt.Errorf("load module: %w", err)
	}
	for line := range strings.Lines(string(src)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "module" {
			return f[1], nil
		}
	}
	return "", errors.New("load module: go.mod has no module line")
}

type loader struct {
	fsys   fs.FS
	fset   *token.FileSet
	byPath map[string]*Package
}

func (l *loader) visit(name string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case d.IsDir() && l.foreign(name):
		return fs.SkipDir
	case d.IsDir() || path.Ext(name) != ".go":
		return nil
	}
	src, err := fs.ReadFile(l.fsys, name)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	syntax, err := parser.ParseFile(l.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse source: %w", err)
	}
	l.add(File{
		Path:   name,
		Test:   strings.HasSuffix(name, "_test.go"),
		Lines:  countLines(src),
		Syntax: syntax,
		fset:   l.fset,
	})
	return nil
}

// foreign reports whether the folder is none of the module's packages, by the
// go command's own rules.
func (l *loader) foreign(dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := fs.Stat(l.fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (l *loader) add(f File) {
	dir := path.Dir(f.Path)
	p := l.byPath[dir]
	if p == nil {
		p = &Package{Path: dir}
		l.byPath[dir] = p
	}
	if name := f.Syntax.Name.Name; !f.Test || p.Name == "" {
		p.Name = strings.TrimSuffix(name, "_test")
	}
	p.Files = append(p.Files, f)
}

func countLines(src []byte) int {
	n := bytes.Count(src, []byte("\n"))
	if len(src) > 0 && src[len(src)-1] != '\n' {
		n++
	}
	return n
}

// at makes a violation at the place of a node.
func (f *File) at(pos token.Pos, format string, args ...any) Violation {
	return Violation{File: f.Path, Line: f.fset.Position(pos).Line, Text: fmt.Sprintf(format, args...)}
}

// match reports whether a slash-separated path fits a pattern of a table: "x"
// itself, "x/*" each direct child of x, "x/..." x and everything below it.
func match(pattern, name string) bool {
	if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == parent || strings.HasPrefix(name, parent+"/")
	}
	if parent, ok := strings.CutSuffix(pattern, "/*"); ok {
		child, ok := strings.CutPrefix(name, parent+"/")
		return ok && child != "" && !strings.Contains(child, "/")
	}
	return pattern == name
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// CheckDocs reports missing documentation. Every package needs a comment that
// begins "Package x", every binary one that begins "Command x". Every exported
// name of a package that others can import needs a comment of its own; only for
// constants the comment of their group is enough. So does each exported method
// of an exported interface that has more than one.
func CheckDocs(m *Module) []Violation {
	var out []Violation
	for i := range m.Packages {
		p := &m.Packages[i]
		out = append(out, packageComment(p)...)
		if p.Name == "main" || isInternal(p.Path) {
			continue
		}
		for j := range p.Files {
			if f := &p.Files[j]; !f.Test {
				out = append(out, undocumented(f)...)
			}
		}
	}
	return out
}

func isInternal(pkg string) bool {
	return slices.Contains(strings.Split(pkg, "/"), "internal")
}

// packageComment looks for the comment in the product's files; a folder that
// holds nothing but tests may have it in one of them.
func packageComment(p *Package) []Violation {
	want := []string{"Package", p.Name}
	if p.Name == "main" {
		want = []string{"Command", path.Base(p.Path)}
	}
	testsOnly := !slices.ContainsFunc(p.Files, func(f File) bool { return !f.Test })
	var out []Violation
	var found bool
	for i := range p.Files {
		f := &p.Files[i]
		if f.Syntax.Doc.Text() == "" || f.Test && !testsOnly {
			continue
		}
		found = true
		words := strings.Fields(f.Syntax.Doc.Text())
		if len(words) < 3 || !slices.Equal(words[:2], want) {
			out = append(out, f.at(f.Syntax.Doc.Pos(), "package comment must begin %q", strings.Join(want, " ")))
		}
	}
	if !found {
		out = append(out, Violation{File: p.Path, Text: "package has no comment: begin one with \"" + strings.Join(want, " ") + "\""})
	}
	return out
}

// undocumented lists the exported declarations of a file that lack a comment.
func undocumented(f *File) []Violation {
	var out []Violation
	for _, decl := range f.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if name, ok := exportedFunc(d); ok && !hasText(d.Doc) {
				out = append(out, f.at(d.Pos(), "exported %s has no comment", name))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				out = append(out, undocumentedSpec(f, d, spec)...)
			}
		}
	}
	return out
}

// exportedFunc names a function, or a method of an exported type.
func exportedFunc(d *ast.FuncDecl) (string, bool) {
	if !d.Name.IsExported() {
		return "", false
	}
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name, true
	}
	recv := receiver(d.Recv.List[0].Type)
	return recv + "." + d.Name.Name, ast.IsExported(recv)
}

func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	default:
		return ""
	}
}

func undocumentedSpec(f *File, d *ast.GenDecl, spec ast.Spec) []Violation {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return undocumentedType(f, d, s)
	case *ast.ValueSpec:
		return undocumentedValues(f, d, s)
	default:
		return nil
	}
}

func undocumentedType(f *File, d *ast.GenDecl, s *ast.TypeSpec) []Violation {
	if !s.Name.IsExported() {
		return nil
	}
	var out []Violation
	if !hasText(s.Doc, s.Comment, alone(d)) {
		out = append(out, f.at(s.Pos(), "exported %s has no comment", s.Name.Name))
	}
	if it, ok := s.Type.(*ast.InterfaceType); ok {
		out = append(out, undocumentedMethods(f, s.Name.Name, it)...)
	}
	return out
}

// undocumentedMethods passes an interface with one exported method: the type's
// comment speaks for it.
func undocumentedMethods(f *File, name string, it *ast.InterfaceType) []Violation {
	var exported int
	var out []Violation
	for _, field := range it.Methods.List {
		for _, id := range field.Names {
			if !id.IsExported() {
				continue
			}
			exported++
			if !hasText(field.Doc, field.Comment) {
				out = append(out, f.at(id.Pos(), "exported %s.%s has no comment", name, id.Name))
			}
		}
	}
	if exported < 2 {
		return nil
	}
	return out
}

func undocumentedValues(f *File, d *ast.GenDecl, s *ast.ValueSpec) []Violation {
	group := alone(d)
	if d.Tok == token.CONST {
		group = d.Doc
	}
	if hasText(s.Doc, s.Comment, group) {
		return nil
	}
	var out []Violation
	for _, id := range s.Names {
		if id.IsExported() {
			out = append(out, f.at(id.Pos(), "exported %s has no comment", id.Name))
		}
	}
	return out
}

// alone returns the declaration's comment where it stands for a single name.
func alone(d *ast.GenDecl) *ast.CommentGroup {
	if d.Lparen.IsValid() {
		return nil
	}
	return d.Doc
}

// hasText reports whether one of the comments says something; a directive does
// not.
func hasText(groups ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(groups, func(g *ast.CommentGroup) bool { return g.Text() != "" })
}

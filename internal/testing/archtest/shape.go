package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strconv"
)

// MaxLines is the longest that a source file may be.
const MaxLines = 600

// CheckShape reports what no file may hold, whatever its package: more than
// [MaxLines] lines, an init function, a comment that puts work off and, in
// tests and in suites for tests, a sleep or a way to skip.
func CheckShape(m *Module) []Violation {
	promise := regexp.MustCompile(`\b(TO-?DO|FIX-?ME|X{3})\b`)
	var out []Violation
	for i := range m.Packages {
		for j := range m.Packages[i].Files {
			f := &m.Packages[i].Files[j]
			if f.Lines > MaxLines {
				out = append(out, Violation{File: f.Path, Text: fmt.Sprintf("%d lines, at most %d: split it", f.Lines, MaxLines)})
			}
			out = append(out, inits(f)...)
			out = append(out, promises(f, promise)...)
			if f.Test || importName(f, "testing") != "" {
				out = append(out, evasions(f)...)
			}
		}
	}
	return out
}

func inits(f *File) []Violation {
	var out []Violation
	for _, decl := range f.Syntax.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
			out = append(out, f.at(d.Pos(), "init function: wire it where the program starts"))
		}
	}
	return out
}

// promises finds the markers of work put off.
func promises(f *File, promise *regexp.Regexp) []Violation {
	var out []Violation
	for _, group := range f.Syntax.Comments {
		for _, c := range group.List {
			if word := promise.FindString(c.Text); word != "" {
				out = append(out, f.at(c.Pos(), "comment puts work off (%s): do it or file it", word))
			}
		}
	}
	return out
}

// evasions finds the calls with which a test avoids to test: it sleeps instead
// of waiting for what it wants to see, or it skips itself.
func evasions(f *File) []Violation {
	clock, testers := importName(f, "time"), testerNames(f)
	var out []Violation
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch on := operand(sel); sel.Sel.Name {
		case "Sleep":
			if clock != "" && on == clock {
				out = append(out, f.at(sel.Pos(), "test sleeps: wait for the condition, or for a timer's channel in a synctest bubble"))
			}
		case "Skip", "Skipf", "SkipNow":
			if testers[on] {
				out = append(out, f.at(sel.Pos(), "test skips: make it run everywhere or remove it"))
			}
		}
		return true
	})
	return out
}

// operand returns the name before the selector's last dot: t in t.Skip and in
// s.t.Skip. It is empty if there is none.
func operand(sel *ast.SelectorExpr) string {
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	default:
		return ""
	}
}

// importName returns the name under which a file knows a package of the
// standard library, empty if it does not import it.
func importName(f *File, pkg string) string {
	for _, spec := range f.Syntax.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err != nil || name != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return pkg
	}
	return ""
}

// testerNames collects the names of parameters and fields that hold a
// *testing.T, B or F, or a testing.TB.
func testerNames(f *File) map[string]bool {
	testing, names := importName(f, "testing"), make(map[string]bool)
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || !isTester(field.Type, testing) {
			return true
		}
		for _, id := range field.Names {
			names[id.Name] = true
		}
		return true
	})
	return names
}

func isTester(e ast.Expr, testing string) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && testing != "" && id.Name == testing
}

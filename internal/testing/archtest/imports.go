package archtest

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// Table is the agreement about imports. Packages are written relative to the
// module's root: "x" is x itself, "x/*" each direct child of x, "x/..." x and
// all that lies below it.
type Table struct {
	Rows   []Row
	Fences []Fence
	Diets  []Diet
}

// Row places packages on a level. Imports go strictly down: a package imports
// only packages of lower levels. Where several rows fit a package, the one that
// names it in full wins, then the first.
type Row struct {
	Level   int
	Package string
	Purpose string // one sentence, for the reader of the table

	// Shared packages belong to no level: anybody may import them. What they
	// import themselves is for a Diet to say.
	Shared bool
}

// Fence keeps imports within some packages, or out of some.
type Fence struct {
	Imports []string // full import paths, as patterns
	Within  []string // packages that may import them
	Not     []string // used instead of Within: packages that may not, all others may
	Tests   bool     // holds for test files too
	Why     string   // completes "x is imported here, but …"
}

// Diet lists what the product files of a package may import.
type Diet struct {
	Package string
	Inside  []string // of this module
	Outside []string // of everything else; nil: anything
}

// CheckImports compares the imports of m with t. Levels and diets hold for the
// product's files, fences also for tests where they say so. A package that no
// row fits is a violation, and so is a row without a package.
func CheckImports(m *Module, t Table) []Violation {
	var out []Violation
	for i := range m.Packages {
		p := &m.Packages[i]
		row, ok := t.row(p.Path)
		if !ok {
			out = append(out, Violation{
				File: p.Path,
				Text: "package is not in the package table: add a row with its level",
			})
			continue
		}
		for j := range p.Files {
			c := importCheck{module: m.Path, table: t, pkg: p, row: row, file: &p.Files[j]}
			for _, spec := range p.Files[j].Syntax.Imports {
				out = append(out, c.check(spec)...)
			}
		}
	}
	return append(out, t.stale(m)...)
}

// row finds the row of a package.
func (t Table) row(pkg string) (Row, bool) {
	var found Row
	var ok bool
	for _, r := range t.Rows {
		if r.Package == pkg {
			return r, true
		}
		if !ok && match(r.Package, pkg) {
			found, ok = r, true
		}
	}
	return found, ok
}

// stale returns the rows that name a package which is not there: a table that
// lists what does not exist stops being read.
func (t Table) stale(m *Module) []Violation {
	var out []Violation
	for _, r := range t.Rows {
		if strings.HasSuffix(r.Package, "/*") || strings.HasSuffix(r.Package, "/...") {
			continue
		}
		if !m.has(r.Package) {
			out = append(out, Violation{
				File: r.Package,
				Text: "the package table lists it, but there is no such package: remove the row",
			})
		}
	}
	return out
}

func (m *Module) has(pkg string) bool {
	for _, p := range m.Packages {
		if p.Path == pkg {
			return true
		}
	}
	return false
}

// importCheck judges the imports of one file.
type importCheck struct {
	module string
	table  Table
	pkg    *Package
	row    Row
	file   *File
}

func (c importCheck) check(spec *ast.ImportSpec) []Violation {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return []Violation{c.file.at(spec.Pos(), "import path %s: %v", spec.Path.Value, err)}
	}
	var out []Violation
	report := func(text string) {
		if text != "" {
			out = append(out, c.file.at(spec.Pos(), "%s", text))
		}
	}
	for _, f := range c.table.Fences {
		report(c.fence(f, name))
	}
	if c.file.Test {
		return out
	}
	inside, isInside := strings.CutPrefix(name, c.module+"/")
	if isInside {
		report(c.level(inside))
	}
	for _, d := range c.table.Diets {
		if !match(d.Package, c.pkg.Path) {
			continue
		}
		if isInside {
			report(c.diet(d.Inside, inside))
		} else if d.Outside != nil {
			report(c.diet(d.Outside, name))
		}
	}
	return out
}

func (c importCheck) level(imported string) string {
	to, ok := c.table.row(imported)
	if !ok || to.Shared || c.row.Shared || to.Level < c.row.Level {
		return "" // a package without a row is reported where it lies
	}
	return fmt.Sprintf("%s (level %d) imports %s (level %d): imports go strictly down",
		c.pkg.Path, c.row.Level, imported, to.Level)
}

func (c importCheck) fence(f Fence, imported string) string {
	if !matchAny(f.Imports, imported) || c.file.Test && !f.Tests {
		return ""
	}
	allowed := matchAny(f.Within, c.pkg.Path)
	if f.Not != nil {
		allowed = !matchAny(f.Not, c.pkg.Path)
	}
	if allowed {
		return ""
	}
	return fmt.Sprintf("%s is imported here, but %s", imported, f.Why)
}

func (c importCheck) diet(allowed []string, imported string) string {
	if matchAny(allowed, imported) {
		return ""
	}
	return fmt.Sprintf("%s may not import %s: it imports only %s",
		c.pkg.Path, imported, strings.Join(allowed, ", "))
}

package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the import path of the module's root.
const module = "github.com/turnlog/turnlog"

// goPackage is the output of go list for one package.
type goPackage struct {
	ImportPath, Name, Doc, Dir string
	Imports                    []string // of its product files
}

// row is one line of the package table in ARCHITECTURE.md.
type row struct {
	level   int
	pattern string // "x", "x/*" for each direct child of x, "x/..." for x and all below it
}

func TestImportsGoStrictlyDown(t *testing.T) {
	t.Parallel()
	table, all := packageTable(t), packages(t)
	for _, p := range all {
		from, ok := find(table, p.ImportPath)
		if !ok {
			t.Errorf("%s: not in the package table of ARCHITECTURE.md; add a row with its level", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if to, ok := find(table, imported); ok && to.level >= from.level {
				t.Errorf("%s (level %d) imports %s (level %d)", p.ImportPath, from.level, imported, to.level)
			}
		}
	}
	for _, r := range table {
		named := func(p goPackage) bool { return p.ImportPath == module+"/"+r.pattern }
		if !strings.HasSuffix(r.pattern, "/*") && !strings.HasSuffix(r.pattern, "/...") && !slices.ContainsFunc(all, named) {
			t.Errorf("%s: in the package table of ARCHITECTURE.md, but there is no such package", r.pattern)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + path.Base(p.ImportPath) + " "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: package comment is %q, must begin %q", p.ImportPath, p.Doc, want)
		}
	}
}

// The size limits of packages and files. Tests do not count as part of a package.
const (
	maxFiles       = 20
	maxLines       = 4000
	maxLinesOfFile = 600
)

func TestPackagesAndFilesAreSmall(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files, lines := 0, 0
		for _, name := range names {
			text, err := os.ReadFile(name) //nolint:gosec // of this module
			if err != nil {
				t.Fatal(err)
			}
			n := bytes.Count(text, []byte("\n"))
			if n > maxLinesOfFile {
				t.Errorf("%s: %d lines, at most %d", name, n, maxLinesOfFile)
			}
			if !strings.HasSuffix(name, "_test.go") {
				files, lines = files+1, lines+n
			}
		}
		if files > maxFiles || lines > maxLines {
			t.Errorf("%s: %d files with %d lines, at most %d and %d", p.ImportPath, files, lines, maxFiles, maxLines)
		}
	}
}

// packageTable reads the table of packages in ARCHITECTURE.md.
func packageTable(t *testing.T) []row {
	t.Helper()
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var table []row
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\| .+ \\|$").FindAllSubmatch(page, -1) {
		level, _ := strconv.Atoi(string(m[1])) // digits, by the expression
		table = append(table, row{level, string(m[2])})
	}
	if len(table) < 10 {
		t.Fatalf("%d rows found in the package table of ARCHITECTURE.md", len(table))
	}
	return table
}

// find returns the row of a package: the one that names it in full, or the first that fits.
func find(table []row, importPath string) (row, bool) {
	name, _ := strings.CutPrefix(importPath, module+"/")
	fits := func(r row) bool {
		if parent, ok := strings.CutSuffix(r.pattern, "/..."); ok {
			return name == parent || strings.HasPrefix(name, parent+"/")
		}
		return strings.HasSuffix(r.pattern, "/*") && path.Dir(name)+"/*" == r.pattern
	}
	for _, matches := range []func(row) bool{func(r row) bool { return r.pattern == name }, fits} {
		if i := slices.IndexFunc(table, matches); i >= 0 {
			return table[i], true
		}
	}
	return row{}, false
}

func packages(t *testing.T) (all []goPackage) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Doc,Dir,Imports", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

package archtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/testing/archtest"
)

// small is an agreement with one of everything, for the modules in
// testdata/imports.
func small() archtest.Table {
	return archtest.Table{
		Rows: []archtest.Row{
			{Level: 3, Package: "cmd/*"},
			{Level: 2, Package: "plug/*"},
			{Level: 1, Package: "core"},
			{Level: 1, Package: "plug/suite"},
			{Level: 0, Package: "words"},
			{Package: "internal/...", Shared: true},
		},
		Fences: []archtest.Fence{
			{Imports: []string{"vendor.example/db/..."}, Within: []string{"plug/db"}, Tests: true, Why: "only plug/db speaks to it"},
			{Imports: []string{"vendor.example/log"}, Not: []string{"core", "words"}, Why: "the core does not log"},
		},
		Diets: []archtest.Diet{
			{Package: "core", Inside: []string{"words"}, Outside: []string{"errors", "strings"}},
			{Package: "internal/...", Inside: []string{"internal/...", "words"}},
		},
	}
}

// TestEveryRuleSeesItsViolations runs the modules in testdata. Each file there
// holds the source of a module and, last, the violations that it must give; the
// folder says which rules judge it.
func TestEveryRuleSeesItsViolations(t *testing.T) {
	t.Parallel()
	rules := map[string]func(*archtest.Module) []archtest.Violation{
		"imports": func(m *archtest.Module) []archtest.Violation { return archtest.CheckImports(m, small()) },
		"docs":    archtest.CheckDocs,
		"shape":   archtest.CheckShape,
	}
	for rule, check := range rules {
		files, err := filepath.Glob(filepath.Join("testdata", rule, "*.txt"))
		if err != nil || len(files) == 0 {
			t.Fatalf("modules for %s: %d found, %v", rule, len(files), err)
		}
		for _, file := range files {
			t.Run(rule+"/"+strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				t.Parallel()
				source, want := readModule(t, file)
				m, err := archtest.Load(source)
				if err != nil {
					t.Fatalf("Load: %v", err)
				}
				var got strings.Builder
				for _, v := range check(m) {
					fmt.Fprintln(&got, v)
				}
				if diff := cmp.Diff(want, got.String()); diff != "" {
					t.Errorf("violations (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// readModule splits a file at its "-- name --" lines into the source of a module
// and the part named want. The text before the first such line is for people.
func readModule(t *testing.T, file string) (source fstest.MapFS, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source = fstest.MapFS{"go.mod": {Data: []byte("module example.com/m\n")}}
	sections := strings.Split("\n"+string(text), "\n-- ")
	for _, s := range sections[1:] {
		name, body, ok := strings.Cut(s, " --\n")
		switch {
		case !ok:
			t.Fatalf("%s: section without a closed name: %.40q", file, s)
		case name == "want":
			want = body
		default:
			source[name] = &fstest.MapFile{Data: []byte(body + "\n")}
		}
	}
	return source, want
}

func TestLoadSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	mod := &fstest.MapFile{Data: []byte("// a comment\nmodule example.com/m\n")}
	tests := map[string]struct {
		source fstest.MapFS
		want   string
	}{
		"no go.mod":      {fstest.MapFS{}, "load module: open go.mod"},
		"no module line": {fstest.MapFS{"go.mod": {Data: []byte("go 1.26\n")}}, "no module line"},
		"syntax":         {fstest.MapFS{"go.mod": mod, "a/a.go": {Data: []byte("package a\nfunc {\n")}}, "a/a.go:2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := archtest.Load(tt.source)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Load = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestLoadLeavesOutWhatIsNotOfTheModule(t *testing.T) {
	t.Parallel()
	broken := &fstest.MapFile{Data: []byte("not Go")}
	m, err := archtest.Load(fstest.MapFS{
		"go.mod":            {Data: []byte("module example.com/m\n")},
		"root.go":           {Data: []byte("package m\n")},
		"a/a_test.go":       {Data: []byte("package a_test\n")},
		"a/testdata/x.go":   broken,
		"a/vendor/x.go":     broken,
		".hidden/x.go":      broken,
		"_old/x.go":         broken,
		"tools/go.mod":      {Data: []byte("module example.com/m/tools\n")},
		"tools/deep/too.go": broken,
		"a/notes.txt":       broken,
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	var got []string
	for _, p := range m.Packages {
		got = append(got, p.Path+" "+p.Name)
	}
	if diff := cmp.Diff([]string{". m", "a a"}, got); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
}

func TestFileMayHaveMaxLinesAndNotOneMore(t *testing.T) {
	t.Parallel()
	head := "// Package a is long.\npackage a\n"
	m, err := archtest.Load(fstest.MapFS{
		"go.mod":    {Data: []byte("module example.com/m\n")},
		"a/fits.go": {Data: []byte(head + strings.Repeat("\n", archtest.MaxLines-2))},
		"a/over.go": {Data: []byte(head + strings.Repeat("\n", archtest.MaxLines-2) + "//")},
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	want := []archtest.Violation{{File: "a/over.go", Text: "601 lines, at most 600: split it"}}
	if diff := cmp.Diff(want, archtest.CheckShape(m)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

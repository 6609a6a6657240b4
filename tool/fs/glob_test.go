package fs

import (
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for pattern, rows := range map[string]struct{ fit, not string }{
		"*.go":            {"a.go x/a.go .go", "a.goo a.go/x"},
		"a?c":             {"abc x/aéc", "ac abbc"},
		"[a-c]x":          {"ax d/bx", "dx"},
		"a/*.go":          {"a/x.go", "x.go a/b/x.go b/a/x.go"},
		"/a/*.go":         {"a/x.go", "b/x.go"},
		"./a":             {"a b/a", "b"},
		"**":              {"a a/b a/b/c", ""},
		"**/x":            {"x a/x a/b/x", "a/x/b xx"},
		"a/**":            {"a a/b a/b/c", "b ab/c"},
		"a/":              {"a a/b", "b"},
		"a/**/b/**/c":     {"a/b/c a/x/b/y/z/c a/b/b/c/c", "a/c a/b/x b/a/b/c"},
		"**/**/x":         {"x a/x", "y"},
		"*.{go,md}":       {"a.go x/b.md", "a.txt"},
		"{a,b/{c,d}}.txt": {"a.txt b/c.txt b/d.txt", "c.txt b.txt"},
		"{,x}y":           {"y xy", "zy"},
	} {
		g, err := parseGlob(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		for name := range strings.FieldsSeq(rows.fit) {
			if !g.match(name) {
				t.Errorf("%s does not match %s", pattern, name)
			}
		}
		for name := range strings.FieldsSeq(rows.not) {
			if g.match(name) {
				t.Errorf("%s matches %s", pattern, name)
			}
		}
	}
	for _, pattern := range []string{"[", "a[b", "{a", "{a,{b}", strings.Repeat("{a,b}", 20)} {
		if _, err := parseGlob(pattern); err == nil {
			t.Errorf("%s is accepted as a pattern", pattern)
		}
	}
}

// FuzzGlob also fails by exceeding its deadline.
func FuzzGlob(f *testing.F) {
	f.Add("**/a/**/a/**/a/**/b", strings.Repeat("a/", 40))
	f.Add("{a,b,{c,d}}*", "cx")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		g, err := parseGlob(pattern)
		if err != nil || g == nil {
			return
		}
		g.match(name)
	})
}

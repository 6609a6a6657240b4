package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// row is a line of the table of rules.
type row struct {
	labels []string
	held   []string // scenarios, packages and scripts, in backticks
	reason string   // the cell, if it names none
}

func rows(t *testing.T) []row {
	t.Helper()
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	ruleLine, quoted := regexp.MustCompile(`^\| ([A-Z]\d[^|]*) \| ([^|]+) \| ([^|]*) \|$`), regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(data)) {
		m := ruleLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		r := row{labels: expand(t, m[1]), reason: m[3]}
		for _, q := range quoted.FindAllStringSubmatch(m[3], -1) {
			r.held = append(r.held, q[1])
		}
		out = append(out, r)
	}
	return out
}

// expand lists the labels of a cell, in which L02–L04 means three labels.
func expand(t *testing.T, cell string) []string {
	t.Helper()
	var out []string
	span := regexp.MustCompile(`^([A-Z])(\d+)–[A-Z](\d+)$`)
	for part := range strings.SplitSeq(cell, ", ") {
		m := span.FindStringSubmatch(part)
		if m == nil {
			out = append(out, part)
			continue
		}
		first, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		last, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		for i := first; i <= last; i++ {
			out = append(out, fmt.Sprintf("%s%0*d", m[1], len(m[2]), i))
		}
	}
	return out
}

func TestTheTableMatchesTheScenarios(t *testing.T) {
	t.Parallel()
	covers := make(map[string][]string) // label to scenarios
	scenarios := make(map[string]*scenario)
	for _, sc := range load(t) {
		scenarios[sc.name] = sc
		if len(sc.Covers) == 0 || sc.About == "" {
			t.Errorf("scenario %s does not say what it is about, or which rule it holds", sc.name)
		}
		for _, label := range sc.Covers {
			covers[label] = append(covers[label], sc.name)
		}
	}
	known := make(map[string]bool)
	for _, r := range rows(t) {
		if len(r.held) == 0 && !strings.HasPrefix(r.reason, "does not apply: ") && !strings.HasPrefix(r.reason, "every scenario") {
			t.Errorf("%v: nothing holds it: %q", r.labels, r.reason)
		}
		var want []string
		for _, label := range r.labels {
			if known[label] {
				t.Errorf("%s stands in the table twice", label)
			}
			known[label] = true
			want = append(want, covers[label]...)
		}
		for _, name := range want {
			if !slices.Contains(r.held, name) {
				t.Errorf("%v: scenario %s holds it and is not named", r.labels, name)
			}
		}
		for _, name := range r.held {
			if _, ok := scenarios[name]; ok && !slices.Contains(want, name) {
				t.Errorf("%v: scenario %s does not cover it", r.labels, name)
			} else if !ok {
				checkReference(t, name)
			}
		}
	}
	for label := range covers {
		if !known[label] {
			t.Errorf("%s is covered by %v and is no rule of the table", label, covers[label])
		}
	}
}

// checkReference finds a script, or a package with tests.
func checkReference(t *testing.T, name string) {
	t.Helper()
	at := filepath.Join("..", "..", name)
	info, err := os.Stat(at)
	if err != nil {
		t.Errorf("%s is no scenario, no package and no file", name)
		return
	}
	if tests, _ := filepath.Glob(filepath.Join(at, "*_test.go")); info.IsDir() && len(tests) == 0 {
		t.Errorf("package %s has no tests", name)
	}
}

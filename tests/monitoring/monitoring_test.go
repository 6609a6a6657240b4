package monitoring

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// metric matches a metric of ours in an expression, with what it selects.
var metric = regexp.MustCompile(`\b(turnlog_[a-z_]+)(\{[^}]*\})?`)

// label matches a label in braces.
var label = regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`)

// TestTheDashboardAndTheAlertsUseWhatTheBinariesExport runs a deployment and looks at the metrics of its processes.
func TestTheDashboardAndTheAlertsUseWhatTheBinariesExport(t *testing.T) {
	t.Parallel()
	pages, _, _ := deployment(t)
	used := make(map[string][]string) // labels by metric
	for _, text := range append(expressions(t), alerts(t)...) {
		for _, m := range metric.FindAllStringSubmatch(text, -1) {
			name := m[1]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			used[name] = append(used[name], []string{}...)
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				used[name] = append(used[name], l[1])
			}
		}
	}
	for _, page := range pages {
		clitest.Metrics(t, page) // checks them against the conventions
	}
	if len(used) < 20 {
		t.Errorf("only %d metrics are used", len(used))
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		found := func(page string) bool {
			_, text := clitest.Get(t, page)
			if !strings.Contains(text, "# TYPE "+name+" ") {
				return false
			}
			for _, l := range used[name] {
				if !regexp.MustCompile(name + `\{[^}]*\b` + l + `="`).MatchString(text) {
					return false
				}
			}
			return true
		}
		if !slices.ContainsFunc(pages, found) {
			t.Errorf("no process exports %s with the labels %v", name, used[name])
		}
	}
}

// deployment starts processes that export metrics, runs a session, and returns their pages of metrics.
func deployment(t *testing.T) (pages []string, programs []*clitest.Program, s *clitest.Site) {
	t.Helper()
	s = clitest.NewSite(t)
	const apart = "--namespace=monitored" // from the site's own node and worker, which export nothing
	for _, program := range [][]string{
		{"driver-node"},
		{"tool-worker", "--tools", "fs", "--root", t.TempDir()},
		{"observer", "watch"},
		{"turnlog", "top", "--every", "100ms"},
		{"turnlog", "gateway", "--listen", "127.0.0.1:0", "--insecure"},
	} {
		screen := s.Start(program[0], append(program[1:], apart, "--http", "127.0.0.1:0", "--log-format", "json", "--log-level", "info")...)
		if slices.Contains(program, "gateway") {
			clitest.Get(t, screen.AwaitMatch(t, `(http://127\.0\.0\.1:\d+)/`)+"/healthz")
		}
		programs = append(programs, screen)
		pages = append(pages, "http://"+screen.AwaitMatch(t, `"address": ?"(127\.0\.0\.1:\d+)"`)+"/metrics")
	}
	s.Run(0, "turnlog", "run", apart, "--session", "s-1", "--model", "scripted:"+script(t), "hello")
	return pages, programs, s
}

// script returns a file with replies that call a tool of the worker.
func script(t *testing.T) string {
	t.Helper()
	file := t.TempDir() + "/script.yaml"
	text := "replies:\n  - calls: [{name: fs_list_directory, input: {path: \".\"}}]\n  - text: done\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// expressions returns the expressions of the dashboard.
func expressions(t *testing.T) (out []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID    string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil || d.UID == "" {
		t.Fatalf("dashboard %q: %v", d.UID, err)
	}
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %+v: it has no ID of its own, no title, no room, or nothing to show", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if target.Expr == "" {
				t.Errorf("panel %s: an empty expression", p.Title)
			}
			out = append(out, target.Expr)
		}
	}
	return out
}

// alerts returns the expressions of the alert rules.
func alerts(t *testing.T) (out []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(raw, &f, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if names[r.Alert] || r.Expr == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %+v: it has no name of its own, or lacks something", r)
			}
			names[r.Alert] = true
			out = append(out, r.Expr)
		}
	}
	return out
}

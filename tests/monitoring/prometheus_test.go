//go:build deploy

package monitoring

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

const folder = "../../docs/monitoring/"

// TestPrometheusReadsADeployment runs a real Prometheus with the configuration and the alert rules in docs/monitoring, on the metrics of
// real processes. It evaluates every expression of the dashboard and every rule. Then the node dies, and an alert says so.
func TestPrometheusReadsADeployment(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "config", folder + "prometheus.yml"}, {"check", "rules", "--lint=all", "--lint-fatal", folder + "alerts.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Fatalf("promtool %q: %v\n%s", args, err, out)
		}
	}
	pages, programs, s := deployment(t)
	p := start(t, s, pages)

	for _, expr := range expressions(t) {
		query := strings.ReplaceAll(expr, "$__rate_interval", "5s")
		p.until(t, expr, func() bool { return p.query(t, query) > 0 })
	}
	rules := alerts(t)
	for _, expr := range rules {
		if n := p.query(t, expr); n > 0 {
			t.Errorf("%s: it fires, although nothing is wrong", expr)
		}
	}
	p.until(t, "all rules", func() bool { return len(p.rules(t, "inactive")) == len(rules) })
	programs[0].Stop()
	p.until(t, "TurnlogNoNodes", func() bool { return slices.Equal(p.rules(t, "pending"), []string{"TurnlogNoNodes"}) })
}

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// start starts a Prometheus that reads pages of metrics.
func start(t *testing.T, s *clitest.Site, pages []string) prometheus {
	t.Helper()
	text, err := os.ReadFile(folder + "prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	targets := make([]string, len(pages))
	for i, page := range pages {
		targets[i] = strings.TrimSuffix(strings.TrimPrefix(page, "http://"), "/metrics")
	}
	rules, err := filepath.Abs(folder + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// What differs from the file: how often, and which addresses.
	config["global"] = map[string]string{"scrape_interval": "200ms", "evaluation_interval": "200ms"}
	config["rule_files"] = []string{rules}
	config["scrape_configs"].([]any)[0].(map[string]any)["static_configs"] = []any{map[string]any{"targets": targets}}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	bin, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	program := s.Of(filepath.Dir(bin)).Start("prometheus", "--config.file", file, "--storage.tsdb.path", t.TempDir(), "--web.listen-address", "127.0.0.1:0")
	at := "http://" + program.AwaitMatch(t, `msg="Listening on" address=(127\.0\.0\.1:\d+)`)
	clitest.AwaitPage(t, at+"/-/ready", "Ready")
	return prometheus{at + "/api/v1/"}
}

// get asks the API.
func (p prometheus) get(t *testing.T, path string, data any) {
	t.Helper()
	_, text := clitest.Get(t, p.url+path)
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
}

// query returns how many series an expression has.
func (p prometheus) query(t *testing.T, expr string) int {
	t.Helper()
	var data struct{ Result []json.RawMessage }
	p.get(t, "query?query="+url.QueryEscape(expr), &data)
	return len(data.Result)
}

// rules returns the names of the alerts in a state, which were evaluated without an error.
func (p prometheus) rules(t *testing.T, state string) (names []string) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	p.get(t, "rules?type=alert", &data)
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.LastError != "" {
				t.Fatalf("%s: %s", r.Name, r.LastError)
			}
			if r.Health == "ok" && r.State == state {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// until waits for a condition.
func (p prometheus) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, late := time.NewTicker(50*time.Millisecond), time.After(clitest.Patience)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: no data, or not so", what)
		}
	}
}

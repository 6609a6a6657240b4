package clitest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// Metrics requests the page of metrics, checks it against the conventions of Prometheus, and
// returns the names and types of Turnlog's own metrics, sorted.
func Metrics(t testing.TB, url string) []string {
	t.Helper()
	_, body := Get(t, url)
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatalf("%s: %v in\n%s", url, err, body)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "turnlog_") {
			t.Errorf("metric %s: %s", p.Metric, p.Text)
		}
	}
	var own []string
	for line := range strings.Lines(body) { // a registry sorts them
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "# TYPE turnlog_"); ok {
			own = append(own, "turnlog_"+rest)
		}
	}
	return own
}

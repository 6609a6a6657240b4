package eval

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
)

func TestIntervalsAreThoseOfTheirSources(t *testing.T) {
	t.Parallel()
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.00005 }
	for _, tt := range []struct {
		rate      Rate
		low, high float64
	}{
		{Rate{5, 5}, 0.5655, 1},
		{Rate{0, 10}, 0, 0.2775},
		{Rate{8, 10}, 0.4902, 0.9433},
		{Rate{81, 263}, 0.2553, 0.3662}, // Newcombe's example of method 3
		{Rate{0, 0}, 0, 1},
	} {
		if low, high := tt.rate.Interval(); !near(low, tt.low) || !near(high, tt.high) {
			t.Errorf("%+v: %.4f to %.4f, want %.4f to %.4f", tt.rate, low, high, tt.low, tt.high)
		}
	}
	for _, tt := range []struct {
		a, b      Rate
		low, high float64
	}{
		{Rate{56, 70}, Rate{48, 80}, 0.0524, 0.3339}, // Newcombe's examples of method 10
		{Rate{9, 10}, Rate{3, 10}, 0.1705, 0.8090},
		{Rate{5, 56}, Rate{0, 29}, -0.0381, 0.1926},
		{Rate{10, 10}, Rate{0, 10}, 0.6075, 1},
	} {
		if low, high := tt.a.Difference(tt.b); !near(low, tt.low) || !near(high, tt.high) {
			t.Errorf("%+v - %+v: %.4f to %.4f, want %.4f to %.4f", tt.a, tt.b, low, high, tt.low, tt.high)
		}
		if low, high := tt.b.Difference(tt.a); !near(-high, tt.low) || !near(-low, tt.high) {
			t.Errorf("%+v - %+v is not the reverse: %.4f to %.4f", tt.b, tt.a, low, high)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	call := func(name, input string) content.ToolCall {
		return content.ToolCall{Name: name, Input: json.RawMessage(input)}
	}
	f := facts{
		Side:   compare.Side{Rounds: 3, Usage: content.Usage{InputTokens: 900, OutputTokens: 100, CostMicros: 2500, Currency: "EUR"}},
		calls:  []content.ToolCall{call("fs_read", `{"path":"a","deep":{"x":[1,2.0]}}`), call("fs_read", `{"path":"b"}`), call("mail", `{}`)},
		answer: `{"total": 3, "Note": "Done"}`,
	}
	free := f
	free.Usage.CostMicros, free.answer = 0, "Done."
	deep := map[string]any{"deep": map[string]any{"x": []any{1, 2}}}
	object := func(of string) map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{"total": map[string]any{"type": of}}}
	}
	for _, tt := range []struct {
		check Check
		of    facts
		want  string // part of the problem; "": none
	}{
		{Check{Calls: &Calls{Tool: "fs_*"}}, f, ""},
		{Check{Calls: &Calls{Tool: "fs_*", Max: 1}}, f, "2 such calls"},
		{Check{Calls: &Calls{Tool: "fs_*", Min: 3}}, f, "2 such calls"},
		{Check{Calls: &Calls{Tool: "web", Max: 1}}, f, ""},
		{Check{Calls: &Calls{Tool: "web"}}, f, "0 such calls, of all: \"fs_read {"},
		{Check{Calls: &Calls{Tool: "fs_read", With: deep}}, f, ""},
		{Check{Calls: &Calls{Tool: "fs_read", With: map[string]any{"path": "a", "more": nil}}}, f, "0 such calls"},
		{Check{Calls: &Calls{Tool: "mail", With: map[string]any{"path": "a"}}}, f, "0 such calls"},
		{Check{Calls: &Calls{Tool: "mail"}}, facts{}, "of all: \"none\""},
		{Check{NoCalls: &Calls{Tool: "web"}}, f, ""},
		{Check{NoCalls: &Calls{Tool: "mail"}}, f, "1 such call"},
		{Check{Contains: "done"}, f, ""},
		{Check{Contains: "open"}, f, "the answer is"},
		{Check{NotContains: "open"}, f, ""},
		{Check{NotContains: "DONE"}, f, "the answer is"},
		{Check{Matches: `"total": \d`}, f, ""},
		{Check{Matches: `^\d`}, f, "the answer is"},
		{Check{Schema: object("integer")}, f, ""},
		{Check{Schema: object("string")}, f, "does not fit"},
		{Check{Schema: object("string")}, free, "not JSON"},
		{Check{MaxTokens: 1000}, f, ""},
		{Check{MaxTokens: 999}, f, "1000 tokens"},
		{Check{MaxCost: 0.0025}, f, ""},
		{Check{MaxCost: 0.0024}, f, "0.0025 EUR"},
		{Check{MaxCost: 1}, free, "TURNLOG_PRICES"},
		{Check{MaxRounds: 3}, f, ""},
		{Check{MaxRounds: 2}, f, "3 rounds"},
	} {
		if got := tt.check.problem(tt.of); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.check, got, tt.want)
		}
	}
}

func TestACommandDecidesByItsExitCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`test "$(cat)" = yes`:                 "",
		`test "$TURNLOG_EVAL_SESSION" = s-1`:  "",
		`echo no such file; exit 3`:           `exit status 3: "no such file"`,
		`kill -9 $$`:                          "killed",
		`exit 125`:                            "has no verdict",
		`nosuch-command`:                      "has no verdict (exit code 127)",
		`sleep 60 & echo $! > child; wait $!`: "does not end within",
	} {
		within := time.Minute
		if strings.HasPrefix(text, "sleep") {
			within = 200 * time.Millisecond
		}
		got, err := command(t.Context(), text, t.TempDir(), "s-1", "yes", within)
		if err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// report has one case with a rate.
func report(name string, passed, of int, need float64) *Report {
	results := make([]Result, of)
	for i := range results {
		results[i].Passed = i < passed
	}
	return &Report{Cases: []Done{done(Case{Name: name, PassRate: need}, results)}}
}

func TestRegressionsAreNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		was, is *Report
		want    string // part of why; "": no regression
	}{
		"as before":               {report("a", 3, 3, 1), report("a", 3, 3, 1), ""},
		"it passed":               {report("a", 3, 3, 1), report("a", 2, 3, 1), "it passed with 3/3 (44–100 %) and fails with 2/3 (21–94 %)"},
		"it failed before":        {report("a", 2, 3, 1), report("a", 1, 3, 1), ""},
		"worse by chance":         {report("a", 19, 20, 0.5), report("a", 16, 20, 0.5), ""},
		"worse than chance":       {report("a", 20, 20, 0.5), report("a", 14, 20, 0.5), "more than chance explains"},
		"it fails more than ever": {report("a", 15, 20, 1), report("a", 1, 20, 1), "more than chance explains"},
		"new and passes":          {report("b", 1, 1, 1), report("a", 1, 1, 1), ""},
		"new and fails":           {report("b", 1, 1, 1), report("a", 0, 1, 1), "it is new and fails"},
	} {
		tt.is.Compare(tt.was)
		if tt.want == "" && tt.is.Failed() || tt.want != "" && (len(tt.is.Regressions) != 1 || !strings.Contains(tt.is.Regressions[0].Why, tt.want)) {
			t.Errorf("%s: %+v, want %q", name, tt.is.Regressions, tt.want)
		}
	}
	r := report("a", 3, 3, 1)
	r.Compare(report("a", 1, 3, 1))
	if len(r.Improved) != 1 || r.Failed() {
		t.Errorf("improved: %+v", r)
	}
	if r.Compare(report("b", 1, 1, 1)); len(r.Missing) != 1 || r.Failed() {
		t.Errorf("missing: %+v", r)
	}
}

func TestIDsOfSessionsAreTokens(t *testing.T) {
	t.Parallel()
	r := &runner{suite: &Suite{Name: "s"}}
	seen := map[content.SessionID]bool{}
	for _, name := range []string{"a", "a b", "a/b", "Größe", strings.Repeat("long", 50), strings.Repeat("long", 50) + "er"} {
		id := plan{key: []any{"x"}}.id(r, Case{Name: name}, 1000)
		if _, err := content.ParseSessionID(string(id)); err != nil || seen[id] {
			t.Errorf("%q: %q, %v", name, id, err)
		}
		seen[id] = true
	}
}

func TestReportsAreSafeToShow(t *testing.T) {
	t.Parallel()
	r := report("a|b\x1b[31m<i>", 0, 1, 1)
	r.Suite, r.Passed = "s", Rate{0, 1}
	r.Cases[0].Results[0].Problems = []Failure{{"contains", "`x`\n\x1b|<b>"}}
	for format, not := range map[string][]string{"text": {"\x1b"}, "markdown": {"\x1b", "<b>", "`", "a|b"}, "junit": {"\x1b", "<b>"}, "json": {"\x1b"}} {
		var b strings.Builder
		if err := r.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		for _, text := range not {
			if strings.Contains(b.String(), text) {
				t.Errorf("%s has %q:\n%s", format, text, b.String())
			}
		}
		if !strings.Contains(b.String(), "0/1 (0–79 %)") && format != "json" {
			t.Errorf("%s has no rate:\n%s", format, b.String())
		}
	}
}

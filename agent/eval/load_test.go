package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent/eval"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWhatIsWrongWithASuiteIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	one := "cases:\n- name: a\n  prompt: Hi\n  checks:\n"
	for text, want := range map[string]string{
		"":                         "suite.yaml: the suite is empty: write cases:",
		"name: x\n":                "suite.yaml:1:1: there are no cases",
		"name: x\ncases: []\n":     "suite.yaml:1:1: there are no cases",
		"name: x\n  - y\n":         "suite.yaml:",
		one + "  - contain: x\n":   `suite.yaml:5:5: unknown field "contain": did you mean contains?`,
		one + "  - sentiment: x\n": `suite.yaml:5:5: unknown field "sentiment": checks are calls, no_calls,`,
		one + "  - {}\n":           "suite.yaml:5:5: cases[0].checks[0]: it checks nothing: use one of calls,",
		one + "  - contains: x\n    matches: y\n":                                      "suite.yaml:6:14: cases[0].checks[0].matches: a check has one kind, and this one has contains and matches",
		one + "  - matches: '('\n":                                                     "suite.yaml:5:14: cases[0].checks[0].matches: error parsing regexp: missing closing )",
		one + "  - schema: {type: objekt}\n":                                           "suite.yaml:5:14: cases[0].checks[0].schema: not a JSON Schema:",
		one + "  - schema: 5\n":                                                        "suite.yaml:5:13: int was used where mapping is expected",
		one + "  - max_rounds: -1\n":                                                   "cases[0].checks[0].max_rounds: use a number above 0",
		one + "  - max_rounds: many\n":                                                 "suite.yaml:5:17: want a whole number",
		one + "  - max_cost: .inf\n":                                                   "cases[0].checks[0].max_cost: use a number above 0",
		one + "  - calls: {tool: a, with: {b: .nan}}\n":                                "cases[0].checks[0].calls: with: json: unsupported value",
		one + "  - &x\n    schema: {not: *x}\n":                                        "suite.yaml:5:5: anchors, aliases and tags of YAML are refused: quote a text that begins with &, * or !",
		one + "  - contains: *x\n":                                                     "suite.yaml:5:15: anchors, aliases and tags",
		one + "  - contains: !!binary eA==\n":                                          "suite.yaml:5:15: anchors, aliases and tags",
		one + "  - schema: {a: &a [1, 1], b: &b [*a, *a], c: [*b, *b]}\n":              "suite.yaml:5:17: anchors, aliases and tags",
		one + "  - contains: \"x\x00\"\n":                                              "suite.yaml:5:1: not UTF-8 text",
		one + "  - contains: \xff\n":                                                   "suite.yaml:5:1: not UTF-8 text",
		one + "  - schema: {$ref: 'https://example.com/x.json'}\n":                     "references are not fetched: put the schema under $defs",
		"cases:\n- name: a\n  prompt: x\n  pass_rate: .nan\n  checks: [contains: x]":   "cases[0].pass_rate: NaN: use a part of 1",
		one + "  - calls: {max: 1}\n":                                                  "suite.yaml:5:13: cases[0].checks[0].calls: it names no tool",
		one + "  - calls: {tool: a, min: 3, max: 2}\n":                                 "min 3 and max 2",
		one + "  - no_calls: {tool: a, max: 2}\n":                                      "no_calls has no min and max: use calls",
		one + "  - judge: {question: Nice?}\n":                                         "it names no model: write judge: MODEL",
		one + "  - judge: {model: demo}\n":                                             "it asks nothing",
		one + "  - contains: x\n- name: a\n  prompt: x":                                `suite.yaml:6:9: cases[1].name: case 1 has the name "a", too`,
		"cases:\n- prompt: x\n  checks: [contains: x]":                                 "suite.yaml:2:3: cases[0]: the case has no name",
		"cases:\n- name: a\n  checks: [contains: x]":                                   "suite.yaml:2:3: cases[0]: the case has nothing to run",
		"cases:\n- name: a\n  prompt: x":                                               "suite.yaml:2:3: cases[0]: nothing is checked",
		"cases:\n- name: a\n  prompt: ['']\n  checks: [contains: x]":                   "cases[0].prompt: input 1 is empty",
		"cases:\n- name: a\n  prompt: x\n  pass_rate: 90\n  checks: [contains: x]":     "suite.yaml:4:14: cases[0].pass_rate: 90: use a part of 1",
		"cases:\n- name: a\n  prompt: x\n  repeats: -1\n  checks: [contains: x]":       "cases[0].repeats: -1: use a number from 1 to 1000",
		"cases:\n- name: a\n  prompt: x\n  fork: s-1\n  checks: [contains: x]":         "cases[0].fork: ",
		"cases:\n- name: a\n  journal: no.jsonl\n  checks: [contains: x]":              "suite.yaml:3:12: cases[0].journal: there is no file ",
		"cases:\n- name: a\n  journal: 'a b'\n  checks: [contains: x]":                 "cases[0].journal: bad id",
		"cases:\n- name: a\n  prompt: x\n  cassette: no\n  checks: [contains: x]":      "suite.yaml:4:13: cases[0].cassette: there is no file ",
		"cases:\n- name: a\n  prompt: x\n  journal: s-1\n  checks: [contains: x]":      "a journal has its own input",
		"system: x\nagent: y\ncases:\n- name: a\n  prompt: x\n  checks: [contains: x]": "suite.yaml:1:9: system: the agent has its own prompt",
		one + "  - contains: x\n---\nname: b\n":                                        "a second one begins here",
		strings.Repeat("[", 100_000):                                                   "nest deeper",
	} {
		_, err := eval.Load(write(t, "suite.yaml", text))
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\n", " "), want) {
			t.Errorf("%.200s\n  got  %v\n  want %s", text, err, want)
		}
	}
	if _, err := eval.Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a suite that is not there loads")
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := eval.Load(write(t, "suite.yaml", "cases:\n- {name: a}\n- {name: a}\n"))
	if got := len(strings.Split(err.Error(), "\n")); got != 5 { // nothing to run and to check, twice, and the name
		t.Errorf("%d lines: %v", got, err)
	}
}

func TestABaselineIsAReport(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "use the output", `{"version": 2}`: "version 2, want 1", "[]": "use the output", `{"version": 1, "cases": [{"name": "a", "rate": {"passed": 2, "of": 1}}]}`: "case a: 2 of 1 repeats is not a valid rate"} {
		if _, err := eval.LoadReport(write(t, "base.json", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

package tests

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/internal/testing/archtest"
)

// packages is the package table. A new package gets its row here before it is
// imported anywhere; imports go strictly down.
func packages() []archtest.Row {
	return []archtest.Row{
		{Level: 8, Package: "cmd/*", Purpose: "wiring and exit codes of one binary each"},
		{Level: 8, Package: "tests/...", Purpose: "what only shows when the pieces meet"},

		{Level: 7, Package: "examples/...", Purpose: "programs to read and to copy from, each run by a test"},
		{Level: 7, Package: "internal/testing/celltest", Purpose: "a cell for tests: a server, nodes, workers and a client in one process"},
		{Level: 7, Package: "internal/testing/torture", Purpose: "a deployment under faults, and what is found when they are over"},

		{Level: 6, Package: "internal/cli/...", Purpose: "what the binaries share: flags, logs, exit codes, health"},
		{Level: 6, Package: "audit/render", Purpose: "entries and events as lines for people"},
		{Level: 6, Package: "model/registry", Purpose: "the model providers that our binaries know, by name"},
		{Level: 6, Package: "policy/agentfile", Purpose: "agents that are written down: one YAML file, the same agent in every host"},
		{Level: 6, Package: "internal/testing/looptest", Purpose: "stories told to the core, and written down by whoever found one"},
		{Level: 6, Package: "client", Purpose: "a running deployment seen from Go: open, drive and follow a session"},
		{Level: 6, Package: "actor", Purpose: "drivers, one goroutine per session's State, and the node that hosts them"},

		{Level: 5, Package: "agent", Purpose: "the library that steps a session inside the caller's process"},
		{Level: 5, Package: "worker", Purpose: "claims tasks, runs tools, reports"},
		{Level: 5, Package: "audit", Purpose: "invariants by name, the chain, replay, export"},
		{Level: 5, Package: "jetstream", Purpose: "the contracts kept in NATS JetStream"},
		{Level: 5, Package: "embedded", Purpose: "a NATS server inside the process"},
		{Level: 5, Package: "model/*", Purpose: "one model provider each"},
		{Level: 5, Package: "tool/*", Purpose: "one family of tools each"},

		{Level: 4, Package: "loop/snapshot", Purpose: "a State written down, so that a long journal need not be folded"},
		{Level: 4, Package: "policy/compact", Purpose: "makes a transcript smaller: triggers and strategies behind one mutator"},
		{Level: 4, Package: "policy/workspace", Purpose: "what a folder tells the agents that work in it"},
		{Level: 4, Package: "policy/guardrail", Purpose: "checks of input, replies and results behind one hook"},
		{Level: 4, Package: "engine", Purpose: "the edge that both hosts share: does what is owed and reports what came of it"},

		{Level: 3, Package: "loop", Purpose: "the pure core: Decide, Fold, Pending, Waiting"},
		{Level: 3, Package: "extension", Purpose: "what a host plugs in"},
		{Level: 3, Package: "schedule", Purpose: "what is to happen without anybody's doing, and when"},
		{Level: 3, Package: "internal/testing/journaltest", Purpose: "what every journal must do"},
		{Level: 3, Package: "internal/testing/tasktest", Purpose: "what every task queue must do"},
		{Level: 3, Package: "model/modeltest", Purpose: "what every model must do"},
		{Level: 3, Package: "internal/testing/memorytest", Purpose: "what every store of notes must do"},
		{Level: 3, Package: "tool/tooltest", Purpose: "what every tool must do"},

		{Level: 2, Package: "commands", Purpose: "what a session may be asked or told"},
		{Level: 2, Package: "events/journal", Purpose: "the contract of the journal"},
		{Level: 2, Package: "worker/task", Purpose: "the contract of task queues"},
		{Level: 2, Package: "policy/memory", Purpose: "what tasks leave for later ones"},
		{Level: 2, Package: "model", Purpose: "the contract of models"},
		{Level: 2, Package: "policy/permission", Purpose: "policies over what tool calls may do"},

		{Level: 1, Package: "events", Purpose: "the facts and how they are written down"},
		{Level: 1, Package: "tool", Purpose: "what a tool is"},

		{Level: 0, Package: "content", Purpose: "the vocabulary of a conversation"},

		{Package: "internal/...", Shared: true, Purpose: "help without a domain meaning"},
	}
}

// fences keep dependencies where they belong.
func fences() []archtest.Fence {
	return []archtest.Fence{
		{
			Imports: []string{"github.com/nats-io/nats.go/jetstream/..."},
			Within:  []string{"jetstream/..."},
			Tests:   true,
			Why:     "only package jetstream speaks the JetStream API",
		},
		{
			Imports: []string{"github.com/nats-io/nats-server/v2/..."},
			Within:  []string{"embedded/..."},
			Tests:   true,
			Why:     "only package embedded runs a server",
		},
		{
			Imports: []string{"go.uber.org/zap/..."},
			Not:     []string{"content", "events", "commands", "loop", "audit", "events/journal", "worker/task"},
			Why:     "a package without a logger is one that can be trusted to be pure",
		},
		{
			Imports: []string{"github.com/spf13/...", "github.com/mattn/go-isatty"},
			Within:  []string{"cmd/...", "internal/cli/..."},
			Tests:   true,
			Why:     "flags and terminals are the binaries' business",
		},
		{
			Imports: append(suites("github.com/turnlog/turnlog/"), "testing/..."),
			Within:  append(suites(""), "tests/..."),
			Why:     "help for tests stays out of the product",
		},
	}
}

// suites lists the conformance suites of the contracts.
func suites(prefix string) []string {
	return []string{
		prefix + "internal/testing/celltest",
		prefix + "internal/testing/clitest",
		prefix + "internal/testing/journaltest",
		prefix + "internal/testing/looptest",
		prefix + "internal/testing/memorytest",
		prefix + "model/modeltest",
		prefix + "internal/testing/tasktest",
		prefix + "tool/tooltest",
	}
}

// diets list all that a package may import.
func diets() []archtest.Diet {
	return []archtest.Diet{
		{
			Package: "loop",
			Inside:  []string{"commands", "content", "events"},
			Outside: []string{
				"bytes", "cmp", "encoding/json", "errors", "fmt", "iter", "maps", "slices", "strconv", "strings",
			},
		},
		{
			Package: "extension",
			Inside:  []string{"content", "events", "internal/procgroup", "events/journal", "model", "worker/task", "tool"},
		},
		{
			Package: "internal/testing/archtest",
		},
		{
			Package: "internal/deltas",
			Inside:  []string{"content"},
		},
		{
			Package: "internal/logfield",
		},
		{
			Package: "internal/natscli",
			Inside:  []string{"internal/logfield"},
		},
		{
			Package: "internal/procgroup",
		},
		{
			Package: "internal/wire",
		},
	}
}

func TestImportsGoStrictlyDown(t *testing.T) {
	t.Parallel()
	table := archtest.Table{Rows: packages(), Fences: fences(), Diets: diets()}
	report(t, archtest.CheckImports(load(t), table))
}

func TestContributingShowsThePackageTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for _, r := range packages() {
		level := strconv.Itoa(r.Level)
		if r.Shared {
			level = "any"
		}
		want[level] = append(want[level], r.Package)
	}
	got := make(map[string][]string)
	line := regexp.MustCompile("(?m)^\\| (\\d|any) \\| (`[^|]+`) \\|$")
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		got[m[1]] = strings.Fields(strings.ReplaceAll(m[2], "`", ""))
	}
	sorted := cmpopts.SortSlices(strings.Compare)
	if diff := cmp.Diff(want, got, sorted); diff != "" {
		t.Errorf("levels in CONTRIBUTING.md (-want +got):\n%s", diff)
	}
}

func load(t *testing.T) *archtest.Module {
	t.Helper()
	m, err := archtest.Load(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func report(t *testing.T, violations []archtest.Violation) {
	t.Helper()
	for _, v := range violations {
		t.Error(v)
	}
}

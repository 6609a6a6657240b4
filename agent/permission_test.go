package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// programs is a tool that says which program it runs, and only says so.
func programs(t *testing.T) tool.Source {
	t.Helper()
	f, err := tool.Func("run", "Runs a program.", func(_ context.Context, in running) (string, error) { return "ran " + in.Argv[0], nil })
	if err != nil {
		t.Fatal(err)
	}
	return registry(t, f)
}

type running struct {
	Argv []string `json:"argv"`
}

func (in running) Describe() (kind, summary string, target any) {
	return "shell.command", "run " + in.Argv[0], in
}

func TestRulesOfASessionAreAddedToWhatTheHostPermits(t *testing.T) {
	t.Parallel()
	host := permission.Kinds{Ask: []string{"shell"}}
	for name, tc := range map[string]struct {
		rules []events.Rule
		host  tool.Permissions
		gates []string
		code  string
	}{
		"neither":            {},
		"the host alone":     {host: host, gates: []string{"shell.command"}},
		"a rule that denies": {rules: []events.Rule{{Tool: "r*", Action: events.RuleDeny}}, host: host, code: "rule_denied"},
		"one that allows":    {rules: []events.Rule{{Tool: "run", Action: events.RuleAllow}}},
		"allows, host asks":  {rules: []events.Rule{{Tool: "run", Action: events.RuleAllow}}, host: host, gates: []string{"shell.command"}},
		"both ask":           {rules: []events.Rule{{Tool: "run", Action: events.RuleAsk}}, host: host, gates: []string{"tool.call", "shell.command"}},
		"a rule for another": {rules: []events.Rule{{Tool: "fs_*", Action: events.RuleAllow}}, gates: []string{"tool.call"}},
	} {
		d := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "run", `{"argv":["git"]}`)), modeltest.Text("done")),
			Tools: []tool.Source{programs(t)}, Rules: tc.rules, Permissions: tc.host, Input: []content.Item{content.UserText("go")},
		})
		var gates []string
		var code string
		for done := false; !done; {
			s, err := d.Next(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch s := s.(type) {
			case *session.ApprovalRequest:
				gates = append(gates, s.RequestKind)
				if err := s.Approve(t.Context()); err != nil {
					t.Fatal(err)
				}
			case *session.AfterToolResult:
				code = s.Results[0].Code
			case *session.AwaitingInput, *session.Finished:
				done = true
			}
		}
		if !slices.Equal(gates, tc.gates) || code != tc.code {
			t.Errorf("%s: gates %v, code %q, want %v and %q", name, gates, code, tc.gates, tc.code)
		}
	}
	_, err := agent.New(agent.Config{Model: replies(modeltest.Text("")), Rules: []events.Rule{{Tool: "x", Action: "maybe"}}})
	if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "Rules" {
		t.Errorf("New = %v, want the rules refused", err)
	}
}

// An approval for always outlives the process, and opens nothing but what it is
// about: other programs of the same tool are asked about.
func TestAnApprovalForAlwaysIsRemembered(t *testing.T) {
	t.Parallel()
	asked := func(d *session.Session) (programs []string) {
		for {
			s, err := d.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch s := s.(type) {
			case *session.ApprovalRequest:
				programs = append(programs, s.Scope)
				err = s.ApproveAlways(t.Context())
			case *session.Finished, *session.AwaitingInput:
				return programs
			case *session.AfterToolResult:
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg := agent.Config{
		Model: replies(
			modeltest.Calls(call("c1", "run", `{"argv":["git","add"]}`), call("c2", "run", `{"argv":["git","diff"]}`)),
			modeltest.Calls(call("c3", "run", `{"argv":["git","log"]}`), call("c4", "run", `{"argv":["rm"]}`)),
			modeltest.Text("done"),
			modeltest.Calls(call("c5", "run", `{"argv":["rm"]}`), call("c6", "run", `{"argv":["git"]}`), call("c7", "run", `{"argv":["make"]}`)),
			modeltest.Text("done"),
		),
		Tools: []tool.Source{programs(t)}, Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
		Journal: journal.NewMemory(), Input: []content.Item{content.UserText("go")},
	}
	first := start(t, cfg)
	if got, want := asked(first), []string{"git", "rm"}; !slices.Equal(got, want) {
		t.Errorf("asked about %v, want %v", got, want)
	}
	second := start(t, cfg)
	if err := second.Send(t.Context(), session.Queue, content.UserText("again")); err != nil {
		t.Fatal(err)
	}
	if got, want := asked(second), []string{"make"}; !slices.Equal(got, want) {
		t.Errorf("asked about %v after a restart, want %v", got, want)
	}
}

// A tool that asks in the middle comes back with its questions, and is run once
// these are approved.
func TestAGuardedToolAsksInTheMiddle(t *testing.T) {
	t.Parallel()
	plain, err := programs(t).Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	policy, err := permission.NewCommands("/", permission.CommandRules{Allow: []string{"go"}, Dirs: []string{"/nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "run", `{"argv":["git"]}`)), modeltest.Text("done")),
		Tools: []tool.Source{registry(t, tool.Wrap(plain[0], permission.Guard(policy, plain[0])))}, Input: []content.Item{content.UserText("go")},
	})
	for _, want := range []string{"shell.command", "shell.cwd"} {
		ask := step[*session.ApprovalRequest](t, d)
		if ask.RequestKind != want {
			t.Fatalf("asked about %s, want %s", ask.RequestKind, want)
		}
		if err := ask.Approve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := step[*session.AfterToolResult](t, d); after.Results[0].Text() != "ran git" {
		t.Errorf("results = %+v", after.Results)
	}
}

package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// questions asks two things about every request.
type questions struct{}

func (questions) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "one", Scope: "a", Also: []tool.Verdict{{RequestKind: "two"}}}, nil
}

func TestPreflightJudgesByTheSessionsRulesAndByTheHost(t *testing.T) {
	t.Parallel()
	cat := catalog(t, "free")
	call := engine.Call{ToolCall: content.ToolCall{ID: "c", Place: "t1-r1-c1", Name: "free", Input: json.RawMessage(`{"n":1}`)}, Digest: "d"}
	rule := func(a events.Action) []events.Rule { return []events.Rule{{Tool: "fr*", Action: a}} }
	for name, tc := range map[string]struct {
		rules []events.Rule
		host  tool.Permissions
		gates []string
		code  string
	}{
		"no rules, the host asks":    {host: questions{}, gates: []string{"one", "two"}},
		"a rule asks, too":           {rules: rule(events.RuleAsk), host: questions{}, gates: []string{"tool.call", "one", "two"}},
		"a rule allows, no override": {rules: rule(events.RuleAllow), host: questions{}, gates: []string{"one", "two"}},
		"a rule denies":              {rules: rule(events.RuleDeny), host: questions{}, code: "rule_denied"},
		"the host allows":            {rules: rule(events.RuleAsk), gates: []string{"tool.call"}},
		"none matches":               {rules: []events.Rule{{Tool: "other", Action: events.RuleAllow}}, gates: []string{"tool.call"}},
	} {
		r := engine.NewRunner(engine.Config{Permissions: tc.host})
		e := loop.Preflight{Turn: "turn-1", Round: 1, Rules: loop.Rules{Session: tc.rules}, Calls: []loop.Call{{ToolCall: call.ToolCall, Digest: "d"}}}
		rep, ok := r.Preflight(t.Context(), e, &engine.View{Session: "s", Catalog: cat}).(commands.ReportPreflight)
		if !ok || len(rep.Checks) != 1 || rep.Checks[0].Digest != "d" {
			t.Fatalf("%s: report = %+v", name, rep)
		}
		k := rep.Checks[0]
		if got := k.Refusal; (got == nil) != (tc.code == "") || got != nil && (got.Code != tc.code || got.Status != content.StatusDenied) {
			t.Errorf("%s: refusal = %+v, want %q", name, got, tc.code)
		}
		if len(k.Questions) != len(tc.gates) {
			t.Fatalf("%s: gates = %+v, want %v", name, k.Questions, tc.gates)
		}
		for i, g := range k.Questions {
			if g.RequestKind != tc.gates[i] || g.Summary == "" || g.Reason == "" {
				t.Errorf("%s: gate = %+v, want %s", name, g, tc.gates[i])
			}
		}
	}
}

// A patched call is judged by the rules of its session, for the gate that the
// decision is about.
func TestAPatchedCallIsJudgedAgain(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	tell := func(cs ...commands.Command) {
		for _, c := range cs {
			env := commands.Envelope{ID: commands.NameOf(c), Session: "s", Command: c}
			evs, err := loop.Decide(s, env)
			if err != nil {
				t.Fatal(err)
			}
			s.Fold(events.Entry{Session: "s", Seq: s.Seq + 1, Cause: env.ID, Epoch: 1, Events: evs})
		}
	}
	made := content.ToolCall{ID: "c1", Name: "free", Input: json.RawMessage(`{"n":1}`)}
	tell(
		commands.Claim{},
		commands.OpenSession{Config: events.Config{Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}, Input: []content.Item{content.UserText("go")}},
		commands.ReportReply{
			ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}, Routing: []content.Routing{{Known: true}},
			Items:  []content.Item{content.NewItem(content.Assistant, content.CallPart(made))},
			Checks: []commands.Check{{Place: "t1-r1-c1", Questions: []commands.Question{{RequestKind: "tool.call"}}}},
		},
	)
	r := engine.NewRunner(engine.Config{})
	patch := json.RawMessage(`{"n": 2}`)
	for name, tc := range map[string]struct {
		d    commands.ResolveApproval
		want int
	}{
		"by the only one": {commands.ResolveApproval{Input: patch}, 1},
		"by call":         {commands.ResolveApproval{Call: "c1", Input: patch}, 1},
		"by approval":     {commands.ResolveApproval{Approval: "t1-r1-c1-g1", Input: patch}, 1},
		"without a patch": {commands.ResolveApproval{Call: "c1"}, 0},
		"another call":    {commands.ResolveApproval{Call: "c2", Input: patch}, 0},
		"another gate":    {commands.ResolveApproval{Approval: "t1-r1-c1-g2", Input: patch}, 0},
	} {
		checks := r.CheckPatched(t.Context(), s, catalog(t, "free"), tc.d)
		if len(checks) != tc.want {
			t.Errorf("%s: %d checks, want %d", name, len(checks), tc.want)
		}
		for _, k := range checks {
			if k.Place != "t1-r1-c1" || k.Digest != tool.Digest(patch) || len(k.Questions) != 1 || k.Questions[0].RequestKind != "tool.call" {
				t.Errorf("%s: check = %+v", name, k)
			}
		}
	}
}

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
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// asAll is a host that asks about every call as such, as rules do.
type asAll struct{}

func (asAll) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "other", Also: []tool.Verdict{{RequestKind: permission.KindCall}}}, nil
}

// A grant answers only what the session's rules alone ask, so each question says whose
// it is; and the rules of a turn only take away.
func TestAQuestionSaysWhoAsks(t *testing.T) {
	t.Parallel()
	list := func(a events.Action) []events.Rule { return []events.Rule{{Tool: "fr*", Action: a}} }
	turn := func(as ...events.Action) (out [][]events.Rule) {
		for _, a := range as {
			out = append(out, list(a))
		}
		return out
	}
	for name, tc := range map[string]struct {
		rules  loop.Rules
		host   tool.Permissions
		gates  map[string]events.Asker
		denied bool
	}{
		"no policy":                {},
		"the session":              {rules: loop.Rules{Session: list(events.RuleAsk)}, gates: map[string]events.Asker{permission.KindCall: events.AskedByRules}},
		"the host":                 {host: asAll{}, gates: map[string]events.Asker{permission.KindCall: "", "other": ""}},
		"the session and the host": {rules: loop.Rules{Session: list(events.RuleAsk)}, host: asAll{}, gates: map[string]events.Asker{permission.KindCall: "", "other": ""}},
		"the turn":                 {rules: loop.Rules{Turn: turn(events.RuleAsk)}, gates: map[string]events.Asker{permission.KindCall: events.AskedByTurn}},
		"the turn before all":      {rules: loop.Rules{Session: list(events.RuleAsk), Turn: turn(events.RuleAllow, events.RuleAsk)}, host: asAll{}, gates: map[string]events.Asker{permission.KindCall: events.AskedByTurn, "other": ""}},
		"the turn allows":          {rules: loop.Rules{Session: list(events.RuleAsk), Turn: turn(events.RuleAllow)}, gates: map[string]events.Asker{permission.KindCall: events.AskedByRules}},
		"the turn denies":          {rules: loop.Rules{Session: list(events.RuleAllow), Turn: turn(events.RuleAllow, events.RuleDeny)}, denied: true},
		"the session denies":       {rules: loop.Rules{Session: list(events.RuleDeny), Turn: turn(events.RuleAllow)}, denied: true},
		"the turn is about others": {rules: loop.Rules{Turn: [][]events.Rule{{{Tool: "other", Action: events.RuleDeny}}}}},
	} {
		call := engine.Call{ToolCall: content.ToolCall{ID: "c", Place: "t1-r1-c1", Name: "free", Input: json.RawMessage(`{"n":1}`)}}
		checks := engine.NewRunner(engine.Config{Permissions: tc.host}).Check(t.Context(), "s", "turn-1", tc.rules, catalog(t, "free"), []engine.Call{call})
		if denied := checks[0].Refusal != nil; denied != tc.denied {
			t.Errorf("%s: refusal = %+v", name, checks[0].Refusal)
		}
		if len(checks[0].Questions) != len(tc.gates) {
			t.Errorf("%s: gates = %+v", name, checks[0].Questions)
		}
		for _, g := range checks[0].Questions {
			if want, known := tc.gates[g.RequestKind]; !known || g.Asker != want {
				t.Errorf("%s: %s is asked by %q, want %q", name, g.RequestKind, g.Asker, want)
			}
		}
	}
}

// A patched call of an earlier turn is judged by the rules of that one.
func TestAPatchedCallIsJudgedByItsTurn(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	tell := func(id string, c commands.Command) {
		t.Helper()
		env := commands.Envelope{ID: id, Session: "s", Command: c}
		evs, err := loop.Decide(s, env)
		if err != nil {
			t.Fatal(err)
		}
		s.Fold(events.Entry{Session: "s", Seq: s.Seq + 1, Cause: id, Epoch: 1, Events: evs})
	}
	reply := func(n int, parts ...content.Part) commands.ReportReply {
		return commands.ReportReply{
			ModelCall: commands.ModelCall{Turn: "turn-1", Round: n, Attempt: 1}, Routing: []content.Routing{{Known: true, Route: content.Background}},
			Items:  []content.Item{content.NewItem(content.Assistant, parts...)},
			Checks: []commands.Check{{Place: "t1-r1-c1"}},
		}
	}
	made := content.ToolCall{ID: "c1", Name: "free", Input: json.RawMessage(`{"n":1}`)}
	tell("1", commands.Claim{})
	tell("2", commands.OpenSession{})
	tell("3", commands.SubmitInput{
		Items:   []content.Item{content.UserText("go")},
		Options: &events.TurnOptions{Rules: [][]events.Rule{{{Tool: "free", Action: events.RuleAllow}, {Tool: "*", Action: events.RuleDeny}}}},
	})
	tell("4", reply(1, content.CallPart(made)))
	tell("5", commands.ReportQuestion{Place: "t1-r1-c1", Attempt: 1, Question: commands.Question{RequestKind: "path"}})
	tell("6", reply(2, content.TextPart("it goes on")))
	tell("7", commands.SubmitInput{Items: []content.Item{content.UserText("more")}, Options: &events.TurnOptions{Rules: [][]events.Rule{{{Tool: "free", Action: events.RuleDeny}}}}})
	checks := engine.NewRunner(engine.Config{}).CheckPatched(t.Context(), s, catalog(t, "free"), commands.ResolveApproval{Call: "c1", Input: json.RawMessage(`{"n": 2}`)})
	if s.Turns != 2 || len(checks) != 1 || checks[0].Refusal != nil {
		t.Fatalf("%d turns, checks %+v, want one that lets the call run", s.Turns, checks)
	}
}

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// questions asks two things about every request.
type questions struct{}

func (questions) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "one", Scope: "a", Also: []tool.Verdict{{RequestKind: "two"}}}, nil
}

// check returns the check of one call by a runner.
func check(t *testing.T, r *engine.Runner, cat *engine.Catalog, rules loop.Rules, c content.ToolCall) commands.Check {
	t.Helper()
	e := loop.Preflight{Turn: "turn-1", Round: 1, Rules: rules, Calls: []loop.Call{{ToolCall: c, Digest: "d"}}}
	rep, ok := r.Preflight(t.Context(), e, &engine.View{Session: "s", Catalog: cat}).(commands.ReportPreflight)
	if !ok || len(rep.Checks) != 1 || rep.Checks[0].Digest != "d" || rep.Checks[0].Place != c.Place {
		t.Fatalf("report = %+v", rep)
	}
	return rep.Checks[0]
}

// checkInput returns the checks that the step attaches to a decision.
func checkInput(t *testing.T, s *loop.State, d commands.ResolveApproval) []commands.Check {
	t.Helper()
	session := &engine.Session{Replica: engine.Replica{State: s}, Catalog: catalog(t, "free")}
	env := commands.Envelope{Command: d}
	r := engine.NewRunner(engine.Config{})
	if err := session.CheckInput(func() *engine.Runner { return r }).Do(t.Context(), &env); err != nil {
		t.Fatal(err)
	}
	return env.Checks
}

func TestPreflightAppliesTheRulesOfTheSessionAndTheHost(t *testing.T) {
	t.Parallel()
	cat := catalog(t, "free")
	call := content.ToolCall{ID: "c", Place: "t1-r1-c1", Name: "free", Input: json.RawMessage(`{"n":1}`)}
	rule := func(a events.Action) []events.Rule { return []events.Rule{{Tool: "fr*", Action: a}} }
	for name, tc := range map[string]struct {
		rules     []events.Rule
		host      tool.Permissions
		questions []string
		code      string
	}{
		"no rules, the host asks":    {host: questions{}, questions: []string{"one", "two"}},
		"a rule asks as well":        {rules: rule(events.RuleAsk), host: questions{}, questions: []string{"tool.call", "one", "two"}},
		"a rule allows, no override": {rules: rule(events.RuleAllow), host: questions{}, questions: []string{"one", "two"}},
		"a rule denies":              {rules: rule(events.RuleDeny), host: questions{}, code: "rule_denied"},
		"the host allows":            {rules: rule(events.RuleAsk), questions: []string{"tool.call"}},
		"none matches":               {rules: []events.Rule{{Tool: "other", Action: events.RuleAllow}}, questions: []string{"tool.call"}},
	} {
		k := check(t, engine.NewRunner(engine.Config{Permissions: tc.host}), cat, loop.Rules{Session: tc.rules}, call)
		if got := k.Refusal; (got == nil) != (tc.code == "") || got != nil && (got.Code != tc.code || got.Status != content.StatusDenied) {
			t.Errorf("%s: refusal = %+v, want %q", name, got, tc.code)
		}
		if len(k.Questions) != len(tc.questions) {
			t.Fatalf("%s: questions = %+v, want %v", name, k.Questions, tc.questions)
		}
		for i, q := range k.Questions {
			if q.RequestKind != tc.questions[i] || q.Summary == "" || q.Reason == "" {
				t.Errorf("%s: question = %+v, want %s", name, q, tc.questions[i])
			}
		}
	}
}

// The rules of the session apply to the call whose question the decision answers.
func TestAPatchedCallIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	decide := func(cs ...commands.Command) {
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
	decide(
		commands.Claim{},
		commands.OpenSession{Config: events.Config{Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}, Input: []content.Item{content.UserText("go")}},
		commands.ReportReply{
			ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}, Routing: []content.Routing{{Known: true}},
			Items:  []content.Item{content.NewItem(content.Assistant, content.CallPart(made))},
			Checks: []commands.Check{{Place: "t1-r1-c1", Questions: []commands.Question{{RequestKind: "tool.call"}}}},
		},
	)
	patch := json.RawMessage(`{"n": 2}`)
	for name, tc := range map[string]struct {
		d    commands.ResolveApproval
		want int
	}{
		"by the only one":  {commands.ResolveApproval{Input: patch}, 1},
		"by call":          {commands.ResolveApproval{Call: "c1", Input: patch}, 1},
		"by approval":      {commands.ResolveApproval{Approval: "t1-r1-c1-g1", Input: patch}, 1},
		"without a patch":  {commands.ResolveApproval{Call: "c1"}, 0},
		"another call":     {commands.ResolveApproval{Call: "c2", Input: patch}, 0},
		"another question": {commands.ResolveApproval{Approval: "t1-r1-c1-g2", Input: patch}, 0},
	} {
		checks := checkInput(t, s, tc.d)
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

// A person is asked about arguments that another one has changed before the decision arrives.
func TestADecisionIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	shown := events.Approval{ID: "t1-r1-c1-g2", CallID: "c1", Tool: "free", Input: json.RawMessage(`{"n":1}`)}
	now := shown
	now.Input = json.RawMessage(`{"n":2}`)
	s := loop.New("s")
	s.BackgroundApprovals = []loop.Approval{{Approval: now}}
	session := &engine.Session{Replica: engine.Replica{State: s}}
	for _, row := range []struct {
		shown   string
		refused bool
	}{{"", false}, {statement.Shown(now), false}, {statement.Shown(shown), true}} {
		for _, d := range []commands.ResolveApproval{{Approval: now.ID, Approve: true, Shown: row.shown}, {Call: "c1", Shown: row.shown}} {
			err := session.CheckInput(nil).Do(t.Context(), &commands.Envelope{Command: d})
			if r, ok := errors.AsType[*commands.Rejection](err); ok != row.refused || ok && r.Reason != commands.ReasonChanged {
				t.Errorf("%+v: %v, want refused %v", d, err, row.refused)
			}
		}
	}
}

// asAll is a host that asks about every call as a whole, as rules do.
type asAll struct{}

func (asAll) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "other", Also: []tool.Verdict{{RequestKind: permission.KindCall}}}, nil
}

// A grant answers only questions of the session's rules, so each question names its asker. The
// rules of a turn never grant anything.
func TestAQuestionNamesItsAsker(t *testing.T) {
	t.Parallel()
	list := func(a events.Action) []events.Rule { return []events.Rule{{Tool: "fr*", Action: a}} }
	turn := func(as ...events.Action) (out [][]events.Rule) {
		for _, a := range as {
			out = append(out, list(a))
		}
		return out
	}
	for name, tc := range map[string]struct {
		rules     loop.Rules
		host      tool.Permissions
		questions map[string]events.Asker
		denied    bool
	}{
		"no policy":                {},
		"the session":              {rules: loop.Rules{Session: list(events.RuleAsk)}, questions: map[string]events.Asker{permission.KindCall: events.AskedByRules}},
		"the host":                 {host: asAll{}, questions: map[string]events.Asker{permission.KindCall: "", "other": ""}},
		"the session and the host": {rules: loop.Rules{Session: list(events.RuleAsk)}, host: asAll{}, questions: map[string]events.Asker{permission.KindCall: "", "other": ""}},
		"the turn":                 {rules: loop.Rules{Turn: turn(events.RuleAsk)}, questions: map[string]events.Asker{permission.KindCall: events.AskedByTurn}},
		"the turn before all":      {rules: loop.Rules{Session: list(events.RuleAsk), Turn: turn(events.RuleAllow, events.RuleAsk)}, host: asAll{}, questions: map[string]events.Asker{permission.KindCall: events.AskedByTurn, "other": ""}},
		"the turn allows":          {rules: loop.Rules{Session: list(events.RuleAsk), Turn: turn(events.RuleAllow)}, questions: map[string]events.Asker{permission.KindCall: events.AskedByRules}},
		"the turn denies":          {rules: loop.Rules{Session: list(events.RuleAllow), Turn: turn(events.RuleAllow, events.RuleDeny)}, denied: true},
		"the session denies":       {rules: loop.Rules{Session: list(events.RuleDeny), Turn: turn(events.RuleAllow)}, denied: true},
		"the turn rules others":    {rules: loop.Rules{Turn: [][]events.Rule{{{Tool: "other", Action: events.RuleDeny}}}}},
	} {
		k := check(t, engine.NewRunner(engine.Config{Permissions: tc.host}), catalog(t, "free"), tc.rules,
			content.ToolCall{ID: "c", Place: "t1-r1-c1", Name: "free", Input: json.RawMessage(`{"n":1}`)})
		if denied := k.Refusal != nil; denied != tc.denied {
			t.Errorf("%s: refusal = %+v", name, k.Refusal)
		}
		if len(k.Questions) != len(tc.questions) {
			t.Errorf("%s: questions = %+v", name, k.Questions)
		}
		for _, q := range k.Questions {
			if want, known := tc.questions[q.RequestKind]; !known || q.Asker != want {
				t.Errorf("%s: asker of %s = %q, want %q", name, q.RequestKind, q.Asker, want)
			}
		}
	}
}

// The rules of a call's own turn apply to it, even in a later turn.
func TestAPatchedCallIsCheckedByTheRulesOfItsTurn(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	decide := func(id string, c commands.Command) {
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
	decide("1", commands.Claim{})
	decide("2", commands.OpenSession{})
	decide("3", commands.SubmitInput{
		Items:   []content.Item{content.UserText("go")},
		Options: &events.TurnOptions{Rules: [][]events.Rule{{{Tool: "free", Action: events.RuleAllow}, {Tool: "*", Action: events.RuleDeny}}}},
	})
	decide("4", reply(1, content.CallPart(made)))
	decide("5", commands.ReportQuestion{Place: "t1-r1-c1", Attempt: 1, Question: commands.Question{RequestKind: "path"}})
	decide("6", reply(2, content.TextPart("it goes on")))
	decide("7", commands.SubmitInput{Items: []content.Item{content.UserText("more")}, Options: &events.TurnOptions{Rules: [][]events.Rule{{{Tool: "free", Action: events.RuleDeny}}}}})
	checks := checkInput(t, s, commands.ResolveApproval{Call: "c1", Input: json.RawMessage(`{"n": 2}`)})
	if s.Turns != 2 || len(checks) != 1 || checks[0].Refusal != nil {
		t.Fatalf("%d turns, checks %+v, want one that lets the call run", s.Turns, checks)
	}
}

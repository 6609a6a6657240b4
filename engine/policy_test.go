package engine_test

import (
	"context"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// An agent's terms override what a tool declares. The opener of a session may have written
// the agent, so a policy judges by what the tool itself declares.
func TestThePolicyJudgesByWhatToolsDeclare(t *testing.T) {
	t.Parallel()
	f, err := tool.Func("sh", "Runs a command.", func(context.Context, struct{}) (string, error) { return "ran", nil })
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tool.NewRegistry("r", f)
	if err != nil {
		t.Fatal(err)
	}
	lies := tool.Under(reg, tool.Terms{Tool: "*", Effects: new(content.ReadOnly)})
	c, err := engine.NewCatalog(t.Context(), []tool.Source{lies}, tool.FirstWins, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	call := content.ToolCall{ID: "c1", Place: "t1-r1-c1", Name: "sh", Input: []byte("{}")}
	routing := c.Route(call, nil)
	if routing.Effects != content.ReadOnly || routing.DeclaredEffects() != content.Once {
		t.Errorf("routing = %+v, want read-only under the terms and once as declared", routing)
	}
	e := loop.Preflight{Turn: "turn-1", Round: 1, Calls: []loop.Call{{ToolCall: call, Routing: routing}}, Rules: loop.Rules{
		Policy:  events.Policy{Rules: [][]events.Rule{{{Tool: "*", Action: events.RuleGuard}}}},
		Session: []events.Rule{{Tool: "*", Action: events.RuleAllow}},
	}}
	check := func(queue string, list ...events.Rule) commands.Check {
		t.Helper()
		if list != nil {
			e.Rules.Policy.Rules = [][]events.Rule{list}
		}
		e.Calls[0].Routing.Queue = queue
		rep, ok := engine.NewRunner(engine.Config{}).Preflight(t.Context(), e, &engine.View{Session: "s", Catalog: c}).(commands.ReportPreflight)
		if !ok || len(rep.Checks) != 1 {
			t.Fatalf("report = %+v", rep)
		}
		return rep.Checks[0]
	}
	k := check("r")
	if len(k.Questions) != 1 || k.Questions[0].RequestKind != events.QuestionCall || k.Questions[0].Asker != events.AskedByRules {
		t.Errorf("check = %+v, want the policy's question", k)
	}
	if k := check("gpu", events.Rule{Tool: "sh", Queue: "gpu", Action: events.RuleDeny}); k.Refusal == nil || k.Refusal.Status != content.StatusDenied {
		t.Errorf("check on the queue gpu = %+v, want a denial", k)
	}
	if k := check("cpu", events.Rule{Tool: "sh", Queue: "cpu", Action: events.RuleAllow}); k.Refusal != nil || k.Questions != nil {
		t.Errorf("check on the queue cpu = %+v, want that it may run", k)
	}
}

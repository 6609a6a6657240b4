package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// writer is an agent whose model calls a tool that does more than read, and counts its calls.
func writer(t *testing.T, ran *int) agent.Config {
	t.Helper()
	f, err := tool.Func("write", "Writes.", func(context.Context, struct{}) (string, error) { *ran++; return "ok", nil })
	if err != nil {
		t.Fatal(err)
	}
	return agent.Config{
		Model: replies(modeltest.Calls(call("c1", "write", `{}`)), modeltest.Text("done")), Tools: []tool.Source{registry(t, f)},
		Journal: journal.NewMemory(), Agent: &events.AgentRef{Name: "writer", Version: "1"},
	}
}

// opened starts the session s of an agent, without the defaults of start.
func opened(t *testing.T, c agent.Config) *session.Session {
	t.Helper()
	a, err := agent.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

// A call that a program's policy denies does not run, even if it was approved under another policy.
func TestThePolicyOfTheProgramThatContinuesASessionCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { continuesUnderAnother(t) })
}

func continuesUnderAnother(t *testing.T) {
	t.Helper()
	ran := 0
	c := writer(t, &ran)
	c.Input = []content.Item{content.UserText("go")}
	d := opened(t, c)
	asked := step[*session.ApprovalRequest](t, d)
	if got := d.Policy().Name; got != "default" {
		t.Errorf("the policy that applies is %q", got)
	}
	c.Policy = new(permission.Deploy("strict", events.Rule{Tool: "write", Action: events.RuleDeny}))
	again := opened(t, c)
	if err := again.ResolveApproval(t.Context(), session.Decision{Call: asked.CallID, Approve: true}); err != nil {
		t.Fatal(err)
	}
	got := step[*session.AfterToolResult](t, again)
	if status := got.Results[0].Status; status != content.StatusDenied || ran != 0 {
		t.Errorf("the call is %s and ran %d times", status, ran)
	}
}

// A program's rule about an agent holds for the sessions that work for it.
func TestASubAgentIsHeldToThePolicyOnItsCaller(t *testing.T) {
	t.Parallel()
	ran := 0
	child := writer(t, &ran)
	child.Policy = &permission.Deployment{Rules: []permission.ScopedRule{
		{Tool: "write", Action: events.RuleDeny, Agent: "lead"}, {Tool: "*", Action: events.RuleAllow},
	}}
	lead := delegating(t, child)
	lead.Agent = &events.AgentRef{Name: "lead", Version: "1"}
	if _, err := start(t, lead).RunText(t.Context(), "go"); err != nil || ran != 0 {
		t.Errorf("Run = %v; the tool ran %d times for lead", err, ran)
	}
	lead.Agent, lead.Journal = nil, nil
	child.Journal = journal.NewMemory()
	lead.Tools = delegating(t, child).Tools
	if _, err := start(t, lead).RunText(t.Context(), "go"); err != nil || ran != 1 {
		t.Errorf("Run = %v; the tool ran %d times for an agent without a name", err, ran)
	}
}

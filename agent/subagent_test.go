package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

// delegating is an agent whose first reply hands work to the other.
func delegating(t *testing.T, child agent.Config) agent.Config {
	t.Helper()
	a, err := agent.New(child)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Tool("helper", "Helps.")
	if err != nil {
		t.Fatal(err)
	}
	return agent.Config{
		Model: replies(modeltest.Calls(call("c1", "helper", `{"prompt":"help"}`)), modeltest.Text("thanks")),
		Tools: []tool.Source{registry(t, f)}, Journal: child.Journal, Input: []content.Item{content.UserText("go")},
	}
}

func TestASubAgentAnswersItsCall(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	d := start(t, delegating(t, agent.Config{Model: replies(modeltest.Text("here you are")), Journal: log}))
	if got := step[*agent.AfterToolResult](t, d).Results[0].Text(); got != "here you are" {
		t.Errorf("result = %q", got)
	}
	for rec, err := range log.Read(t.Context(), agent.ChildID("s", "t1-r1-c1"), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.RunStarted); ok && e.Parent != "s" {
				t.Errorf("the child's parent is %q", e.Parent)
			}
		}
	}
}

func TestWhatASubAgentUsesIsCountedForItsCaller(t *testing.T) {
	t.Parallel()
	used := content.Usage{InputTokens: 40, OutputTokens: 2}
	billed := modeltest.Text("here you are")
	billed.Usage = used
	for name, m := range map[string]model.Model{
		"an answer": replies(billed),
		"an error": modeltest.NewFake("m", func(context.Context, model.Request) (model.Reply, error) {
			return model.Reply{}, &model.Error{Class: content.ClassAuth, Message: "no", Usage: used}
		}),
	} {
		c := delegating(t, agent.Config{Model: m, Journal: journal.NewMemory()})
		c.Limits.InputTokens = 30
		d := start(t, c)
		step[*agent.AfterToolResult](t, d)
		fin := step[*agent.Finished](t, d).Result
		if fin.Usage != used || fin.Limit == nil || fin.Limit.Kind != events.LimitInputTokens {
			t.Errorf("%s: the turn used %+v and ended by %+v", name, fin.Usage, fin.Limit)
		}
	}
}

func TestASubAgentsApprovalsAreTheCallers(t *testing.T) {
	t.Parallel()
	d := start(t, delegating(t, agent.Config{
		Model:       replies(modeltest.Calls(call("x", "echo", `{"text":"a"}`), call("y", "echo", `{"text":"b"}`)), modeltest.Text("done")),
		Permissions: asking{}, Tools: []tool.Source{echo(t)}, Journal: journal.NewMemory(),
	}))
	for _, want := range []string{`helper: echo {"text":"a"}`, `helper: echo {"text":"b"}`} {
		ask := step[*agent.ApprovalRequest](t, d)
		if ask.Summary != want || ask.CallID != "c1" {
			t.Errorf("approval = %+v", ask.Approval)
		}
		if err := ask.Approve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := step[*agent.AfterToolResult](t, d).Results[0]; got.Text() != "done" || got.IsError {
		t.Errorf("result = %+v", got)
	}
}

func TestACancelReachesTheSubAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory()
		child := agent.Config{Model: silent(), Journal: log}
		d := start(t, delegating(t, child))
		go func() {
			synctest.Wait()
			if err := d.Cancel(t.Context(), ""); err != nil {
				t.Errorf("Cancel = %v", err)
			}
		}()
		if got := step[*agent.Finished](t, d).Result.FinishReason; got != content.Cancelled {
			t.Errorf("finish reason = %s", got)
		}
		synctest.Wait()
		if got := lastReason(t, log, agent.ChildID("s", "t1-r1-c1")); got != content.Cancelled {
			t.Errorf("the child's turn ended %q", got)
		}
	})
}

func lastReason(t *testing.T, log journal.Journal, s content.SessionID) (r content.FinishReason) {
	t.Helper()
	for rec, err := range log.Read(t.Context(), s, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.TurnFinished); ok {
				r = e.FinishReason
			}
		}
	}
	return r
}

func TestASubAgentGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	ctx, crash := context.WithCancel(t.Context())
	calls := 0
	m := modeltest.NewFake("m", func(mctx context.Context, r model.Request) (model.Reply, error) {
		if calls++; calls == 1 {
			crash()
			<-mctx.Done()
			return model.Reply{}, context.Cause(mctx)
		}
		if r.Attempt != 2 {
			return model.Reply{}, errors.New("it began anew")
		}
		return modeltest.Text("done"), nil
	})
	c := delegating(t, agent.Config{Model: m, Journal: log})
	first := start(t, c)
	if _, err := first.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Next = %v", err)
	}
	second := start(t, c)
	if got := step[*agent.AfterToolResult](t, second).Results[0].Text(); got != "done" || calls != 2 {
		t.Errorf("result = %q after %d model calls", got, calls)
	}
}

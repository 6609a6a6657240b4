package agent_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// delegating is an agent whose first reply delegates to the other.
func delegating(t *testing.T, child agent.Config, opts ...tool.Option) agent.Config {
	t.Helper()
	child.Policy = cmp.Or(child.Policy, permission.AllowAll())
	a, err := agent.New(child)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Tool("helper", "Helps.", opts...)
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
	if got := step[*session.AfterToolResult](t, d).Results[0].Text(); got != "here you are" {
		t.Errorf("result = %q", got)
	}
	for rec, err := range log.Read(t.Context(), engine.ChildID("s", "t1-r1-c1"), 0) {
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

func TestASubAgentsUsageCountsForItsCaller(t *testing.T) {
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
		step[*session.AfterToolResult](t, d)
		fin := step[*session.Finished](t, d).Result
		if fin.Usage != used || fin.Limit == nil || fin.Limit.Kind != events.LimitInputTokens {
			t.Errorf("%s: the turn used %+v and ended by %+v", name, fin.Usage, fin.Limit)
		}
	}
}

func TestTheCallerDecidesASubAgentsApprovals(t *testing.T) {
	t.Parallel()
	d := start(t, delegating(t, agent.Config{
		Model:       replies(modeltest.Calls(call("x", "echo", `{"text":"a"}`), call("y", "echo", `{"text":"b"}`)), modeltest.Text("done")),
		Permissions: asking{}, Tools: []tool.Source{echo(t)}, Journal: journal.NewMemory(),
	}))
	for _, want := range []string{`helper: echo {"text":"a"}`, `helper: echo {"text":"b"}`} {
		ask := step[*session.ApprovalRequest](t, d)
		if ask.Summary != want || ask.CallID != "c1" {
			t.Errorf("approval = %+v", ask.Approval)
		}
		if err := ask.Approve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := step[*session.AfterToolResult](t, d).Results[0]; got.Text() != "done" || got.IsError {
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
		if got := step[*session.Finished](t, d).Result.FinishReason; got != content.Cancelled {
			t.Errorf("finish reason = %s", got)
		}
		synctest.Wait()
		if got := lastReason(t, log, engine.ChildID("s", "t1-r1-c1")); got != content.Cancelled {
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

func TestASubAgentContinuesAfterACrash(t *testing.T) {
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
			return model.Reply{}, errors.New("it started again")
		}
		return modeltest.Text("done"), nil
	})
	c := delegating(t, agent.Config{Model: m, Journal: log})
	first := start(t, c)
	if _, err := first.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Next = %v", err)
	}
	second := start(t, c)
	if got := step[*session.AfterToolResult](t, second).Results[0].Text(); got != "done" || calls != 2 {
		t.Errorf("result = %q after %d model calls", got, calls)
	}
}

// spending is a model that uses tokens in every call. It calls echo until it was called
// often enough.
func spending(used content.Usage, calls int) model.Model {
	n := 0
	return modeltest.NewFake("spending", func(context.Context, model.Request) (model.Reply, error) {
		r := modeltest.Text("done")
		if n++; n <= calls {
			r = modeltest.Calls(call("", "echo", `{"text":"hi"}`))
		}
		r.Usage = used
		return r, nil
	})
}

func TestTheCallersRemainingLimitsBoundItsSubAgents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		turn, session events.Limits
		text          string
		used          int64
	}{
		"tokens":         {events.Limits{InputTokens: 25}, events.Limits{}, "Tool failed: input token limit exceeded: 30 > 25", 30},
		"the session's":  {events.Limits{InputTokens: 90}, events.Limits{TotalTokens: 15}, "Tool failed: total token limit exceeded: 20 > 15", 20},
		"requests":       {events.Limits{Requests: 3}, events.Limits{}, "Tool failed: request limit exceeded: 3 > 2", 20},
		"tool calls":     {events.Limits{ToolCalls: 2}, events.Limits{}, "Tool failed: tool call limit exceeded: 2 > 1", 20},
		"nothing is set": {events.Limits{}, events.Limits{}, "done", 50},
	} {
		c := delegating(t, agent.Config{Model: spending(content.Usage{InputTokens: 10}, 4), Tools: []tool.Source{echo(t)}})
		c.Limits, c.SessionLimits = tc.turn, tc.session
		d := start(t, c)
		if got := step[*session.AfterToolResult](t, d).Results[0].Text(); got != tc.text {
			t.Errorf("%s: result = %q, want %q", name, got, tc.text)
		}
		if got := d.Snapshot().Usage.InputTokens; got != tc.used {
			t.Errorf("%s: the caller was billed for %d tokens, want %d", name, got, tc.used)
		}
	}
}

func TestACancelledSubAgentsUsageCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, used := journal.NewMemory(), content.Usage{InputTokens: 40}
		first := true
		m := modeltest.NewFake("m", func(ctx context.Context, _ model.Request) (model.Reply, error) {
			if !first {
				<-ctx.Done()
				return model.Reply{}, &model.Error{Message: "stopped", Usage: content.Usage{InputTokens: 2}}
			}
			first = false
			r := modeltest.Calls(call("", "echo", `{"text":"hi"}`))
			r.Usage = used
			return r, nil
		})
		d := start(t, delegating(t, agent.Config{Model: m, Tools: []tool.Source{echo(t)}, Journal: log}))
		go func() {
			synctest.Wait()
			if err := d.Cancel(t.Context(), ""); err != nil {
				t.Errorf("Cancel = %v", err)
			}
		}()
		if got := step[*session.Finished](t, d).Result.FinishReason; got != content.Cancelled {
			t.Errorf("finish reason = %s", got)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := d.Snapshot().Usage.InputTokens; got != 42 {
			t.Errorf("the caller was billed for %d tokens", got)
		}
	})
}

func TestADenialReachesTheSubAgent(t *testing.T) {
	used := map[string]int64{"denied": 20, "cancelled": 10} // only the one whose question was denied continues
	ends := map[string]content.FinishReason{"denied": content.Completed, "cancelled": content.Cancelled}
	statuses := map[string]content.Status{"denied": content.StatusDenied, "cancelled": content.StatusCancelled}
	for name, end := range map[string]func(*testing.T, *session.Session, *session.ApprovalRequest){
		"denied": func(t *testing.T, _ *session.Session, ask *session.ApprovalRequest) {
			t.Helper()
			if err := ask.DenyWithReason(t.Context(), "not that"); err != nil {
				t.Error(err)
			}
		},
		"cancelled": func(t *testing.T, d *session.Session, _ *session.ApprovalRequest) {
			t.Helper()
			if err := d.Cancel(t.Context(), ""); err != nil {
				t.Error(err)
			}
		},
	} {
		for _, again := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory()
				c := delegating(t, agent.Config{
					Model: spending(content.Usage{InputTokens: 10}, 1), Permissions: asking{}, Tools: []tool.Source{echo(t)}, Journal: log,
				})
				d := start(t, c)
				ask := step[*session.ApprovalRequest](t, d)
				if again { // what asked is gone
					if err := d.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					d = start(t, c)
					ask = step[*session.ApprovalRequest](t, d)
				}
				end(t, d, ask)
				for {
					s, err := d.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if _, ok := s.(*session.Finished); ok {
						break
					}
				}
				synctest.Wait()
				child := engine.ChildID("s", "t1-r1-c1")
				if got := lastReason(t, log, child); got != ends[name] {
					t.Errorf("%s: the child's turn ended %q", name, got)
				}
				if got := lastStatus(t, log, child); got != statuses[name] {
					t.Errorf("%s: the child's call ended %q", name, got)
				}
				if got := d.Snapshot().Usage.InputTokens; got != used[name] {
					t.Errorf("%s: the caller was billed for %d tokens", name, got)
				}
			})
		}
	}
}

func lastStatus(t *testing.T, log journal.Journal, s content.SessionID) (got content.Status) {
	t.Helper()
	for rec, err := range log.Read(t.Context(), s, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.ToolResultReceived); ok {
				got = e.Result.Status
			}
		}
	}
	return got
}

func TestAFailedSubAgentFailsARepeatedCallToo(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	asked := 0
	child := agent.Config{Journal: log, Model: modeltest.NewFake("m", func(context.Context, model.Request) (model.Reply, error) {
		asked++
		return model.Reply{}, &model.Error{Class: content.ClassAuth, Message: "no key"}
	})}
	c := delegating(t, child)
	c.Journal = cutoff{log, events.KindToolResultReceived} // its host dies before it records the result of the call
	first := start(t, c)
	if _, err := first.Next(t.Context()); err == nil || asked != 1 {
		t.Fatalf("Next = %v after %d model calls", err, asked)
	}
	c.Journal = log
	res := step[*session.AfterToolResult](t, start(t, c)).Results[0]
	if want := "Tool failed: model call failed (auth): no key"; res.Text() != want || !res.IsError || asked != 1 {
		t.Errorf("result = %+v after %d model calls, want %q", res, asked, want)
	}
}

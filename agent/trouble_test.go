package agent_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// silent is a model that never answers.
func silent() model.Model {
	return modeltest.NewFake("silent", func(ctx context.Context, _ model.Request) (model.Reply, error) {
		<-ctx.Done()
		return model.Reply{}, context.Cause(ctx)
	})
}

// hanging is a tool that counts its runs, each of which waits until it is stopped.
func hanging(t *testing.T, runs *atomic.Int32) tool.Source {
	t.Helper()
	f, err := tool.Func("hang", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		runs.Add(1)
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	return registry(t, f)
}

func TestStartReturnsTheErrorOfItsFirstAppend(t *testing.T) {
	t.Parallel()
	for _, fault := range []journaltest.Fault{journaltest.Conflict, journaltest.LostAck, journaltest.LostSend} {
		n := 0
		j := journaltest.NewFaulty(journal.NewMemory(), func(journal.Head, events.Entry) journaltest.Fault {
			if n++; n == 1 {
				return fault
			}
			return journaltest.None
		})
		a, err := agent.New(agent.Config{Model: replies(modeltest.Text("hi")), Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Start(t.Context(), agent.SessionConfig{ID: "s"})
		if !errors.Is(err, journal.ErrConflict) && !errors.Is(err, journal.ErrUnknown) {
			t.Errorf("%s: Start = %v", fault, err)
		}
		d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
		if err != nil {
			t.Fatalf("%s: the second Start = %v", fault, err)
		}
		step[*session.AwaitingInput](t, d)
	}
}

// flaky is a source that is down while the flag says so.
type flaky struct {
	*tool.Registry
	down *atomic.Bool
}

func (f flaky) Tools(ctx context.Context) ([]tool.Tool, error) {
	if f.down.Load() {
		return nil, errors.New("the source is down")
	}
	return f.Registry.Tools(ctx)
}

func TestAReplySurvivesAFailingToolSource(t *testing.T) {
	t.Parallel()
	down, calls := new(atomic.Bool), 0
	m := modeltest.NewFake("fake", func(context.Context, model.Request) (model.Reply, error) {
		calls++
		down.Store(true)
		return modeltest.Text("hi"), nil
	})
	d := start(t, agent.Config{
		Model: m, Tools: []tool.Source{flaky{registry(t), down}}, Input: []content.Item{content.UserText("go")},
	})
	for range 2 {
		if s, err := d.Next(t.Context()); err == nil {
			t.Fatalf("Next = %T while a source is down", s)
		}
	}
	down.Store(false)
	if got := step[*session.Finished](t, d).Result.Text(); got != "hi" || calls != 1 {
		t.Errorf("text = %q after %d model calls", got, calls)
	}
}

func TestACallDetachedAfterItWasGivenUpDoesNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		d := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "hang", `{}`)), modeltest.Text("ok")),
			Tools: []tool.Source{hanging(t, &runs)}, Input: []content.Item{content.UserText("go")},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := d.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Next = %v", err)
		}
		if err := d.Ask(t.Context(), commands.DetachCall{Call: "c1"}); err != nil {
			t.Fatal(err)
		}
		step[*session.AfterToolResult](t, d)
		synctest.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("the tool was run %d times under one attempt", n)
		}
	})
}

func TestACancelBeforeTheModelIsCalledEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := agent.Config{Model: silent(), Input: []content.Item{content.UserText("go")}, Journal: journal.NewMemory()}
		first := start(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := first.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Next = %v", err)
		}
		d := start(t, c) // owes the lost call again
		if err := d.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if got := step[*session.Finished](t, d).Result.FinishReason; got != content.Cancelled {
			t.Errorf("finish reason = %s", got)
		}
	})
}

// onQueued calls a function when input is queued.
type onQueued func()

func (f onQueued) HandleEvent(e extension.Observed) {
	if _, ok := e.Event.(events.InputQueued); ok {
		f()
	}
}

func TestARunWhoseContextEndsBeforeItsTurnStartsIsCancelled(t *testing.T) {
	for range 30 { // cancel and turn race
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := start(t, agent.Config{Model: silent(), Observers: []extension.Observer{onQueued(cancel)}})
			if _, err := d.RunText(ctx, "go"); !errors.Is(err, session.ErrCancelled) {
				t.Fatalf("Run = %v", err)
			}
		})
	}
}

// patient is an approver that decides nothing until the context ends.
type patient struct{}

func (patient) Approve(ctx context.Context, _ events.Approval) (bool, string, error) {
	<-ctx.Done()
	return false, "", context.Cause(ctx)
}

func TestTheEndOfARunCancelsItsApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("ok")),
			Tools: []tool.Source{echo(t)}, Permissions: asking{}, Approver: patient{},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := d.RunText(ctx, "go")
		if e, ok := errors.AsType[*session.CancelledError](err); !ok || e.Reason != "deadline" || e.Stage != "approval" {
			t.Errorf("Run = %v (%+v)", err, e)
		}
		step[*session.AwaitingInput](t, d)
	})
}

// panicking is a policy that panics.
type panicking struct{}

func (panicking) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	panic("the policy broke")
}

func TestAPanickingPolicyRunsNothing(t *testing.T) {
	t.Parallel()
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("ok")),
		Tools: []tool.Source{echo(t)}, Permissions: panicking{}, Input: []content.Item{content.UserText("go")},
	})
	got := step[*session.AfterToolResult](t, d).Results[0]
	if got.Status != content.StatusError || got.Code != tool.CodePanic {
		t.Errorf("result = %+v", got)
	}
}

// once is a policy that changes its mind after it allowed a call.
type once struct{ asked *atomic.Int32 }

func (o once) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if o.asked.Add(1) == 1 {
		return tool.Verdict{}, nil
	}
	return tool.Verdict{Ruling: tool.Deny, Code: r.Kind, Message: string(r.Target)}, nil
}

// A call in process may ask its policy about what it finds while it runs.
func TestARunningCallAsksItsPolicy(t *testing.T) {
	t.Parallel()
	x, err := tool.CallFunc("look", "Looks.", func(ctx context.Context, c tool.Call, _ struct{}) (string, error) {
		return "seen", c.Permit(ctx, "filesystem.read", "read", "there")
	})
	if err != nil {
		t.Fatal(err)
	}
	looks, err := tool.NewRegistry("looks", x)
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "look", `{}`)), modeltest.Text("ok")),
		Tools: []tool.Source{looks}, Permissions: once{new(atomic.Int32)}, Policy: permission.AllowAll(), Input: []content.Item{content.UserText("go")},
	})
	got := step[*session.AfterToolResult](t, d).Results[0]
	if got.Status != content.StatusDenied || got.Code != "filesystem.read" {
		t.Errorf("result = %+v", got)
	}
}

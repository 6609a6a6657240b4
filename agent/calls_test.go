package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// sleeper works for the given time.
func sleeper(t *testing.T, options ...tool.Option) tool.Source {
	t.Helper()
	type input struct {
		For string `json:"for"`
	}
	f, err := tool.Func("sleep", "Works.", func(ctx context.Context, in input) (string, error) {
		d, err := time.ParseDuration(in.For)
		if err != nil {
			return "", err
		}
		select {
		case <-time.After(d):
			return "worked for " + in.For, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return registry(t, f)
}

// routed sends the named calls to the background and detaches the others after a
// second.
func routed(background ...content.CallID) task.RouteFunc {
	return func(c content.ToolCall, _ content.Routing) (content.Route, time.Duration) {
		if slices.Contains(background, c.ID) {
			return content.Background, 0
		}
		return content.DetachSoon, time.Second
	}
}

func TestTheSimpleManagerWaitsForEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		background := func(s *tool.Spec) { s.Route = content.Background }
		f, err := tool.Func("bg", "Works.", func(context.Context, struct{}) (string, error) { return "did it", nil }, tool.WithSpec(background))
		if err != nil {
			t.Fatal(err)
		}
		d := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "bg", `{}`)), modeltest.Text("ok")),
			Tools: []tool.Source{registry(t, f)}, Input: []content.Item{content.UserText("go")},
		})
		if got := step[*session.AfterToolResult](t, d).Results[0].Text(); got != "did it" {
			t.Errorf("result = %q", got)
		}
	})
}

func TestBackgroundOutcomesComeAsNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, agent.Config{
			Model: replies(
				modeltest.Calls(call("c1", "sleep", `{"for":"1h"}`), call("c2", "sleep", `{"for":"1m"}`), call("c3", "sleep", `{"for":"10ms"}`)),
				modeltest.Text("started"), modeltest.Text("c2 is in"), modeltest.Text("c1 is in"),
			),
			Tools: []tool.Source{sleeper(t)}, MaxParallel: -1,
			TaskManager: task.Async(task.AsyncConfig{Route: routed("c1")}),
			Input:       []content.Item{content.UserText("go")},
		})
		after := step[*session.AfterToolResult](t, d)
		running := " is now running in the background."
		for i, want := range []string{running, running, "worked for 10ms"} {
			if got := after.Results[i].Text(); !strings.Contains(got, want) {
				t.Errorf("result %d = %q", i+1, got)
			}
		}
		if got := step[*session.Finished](t, d).Result.Text(); got != "started" {
			t.Errorf("answer = %q", got)
		}
		step[*session.AwaitingInput](t, d)
		list := d.Calls().List()
		if len(list) != 2 || list[0].Call != "c1" || !list[0].Background || !list[0].Running || list[1].Call != "c2" {
			t.Errorf("calls = %+v", list)
		}
		select {
		case <-d.Ready():
			t.Error("ready with nothing to do")
		default:
		}
		for _, want := range []string{"c2 is in", "c1 is in"} {
			<-d.Ready()
			if got := step[*session.Finished](t, d).Result.Text(); got != want {
				t.Errorf("answer = %q, want %q", got, want)
			}
		}
		if err := d.Calls().WaitIdle(t.Context()); err != nil || len(d.Calls().List()) != 0 {
			t.Errorf("WaitIdle = %v, calls %+v", err, d.Calls().List())
		}
		var notes []string
		for _, it := range d.Snapshot().Transcript {
			if it.Kind == content.Notification {
				notes = append(notes, it.Text())
			}
		}
		if got := strings.Join(notes, "|"); got != "Background tool call c2 completed: worked for 1m|Background tool call c1 completed: worked for 1h" {
			t.Errorf("notifications = %s", got)
		}
	})
}

func TestManualResultsGoToTheHostAndQuietResultsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]task.AsyncConfig{"manual": {Manual: true}, "quiet": {Quiet: true}} {
			c.Route = routed("c1", "c2")
			d := start(t, agent.Config{
				Model: replies(modeltest.Calls(call("c1", "sleep", `{"for":"2h"}`), call("c2", "sleep", `{"for":"1h"}`)), modeltest.Text("ok")),
				Tools: []tool.Source{sleeper(t)}, Input: []content.Item{content.UserText("go")}, TaskManager: task.Async(c), MaxParallel: 2,
			})
			step[*session.AfterToolResult](t, d)
			step[*session.Finished](t, d)
			if err := d.Calls().WaitIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
			step[*session.AwaitingInput](t, d)
			var drained []string
			for _, it := range d.Calls().Drain() {
				drained = append(drained, string(it.Parts[0].Result.CallID)+" "+it.Parts[0].Result.Text())
			}
			want := map[string]string{"manual": "c2 worked for 1h|c1 worked for 2h"}[name]
			if got := strings.Join(drained, "|"); got != want {
				t.Errorf("%s: drained %q, want %q", name, got, want)
			}
			if again := d.Calls().Drain(); again != nil {
				t.Errorf("%s: drained twice: %+v", name, again)
			}
			kinds := map[string]string{"manual": "user assistant", "quiet": "user notification notification assistant"}[name]
			for range 2 {
				if _, err := d.RunText(t.Context(), "and?"); err != nil {
					t.Fatal(err)
				}
			}
			if got := kindsOf(d.Snapshot().Transcript[5:]); !strings.HasPrefix(got, kinds) {
				t.Errorf("%s: then came %s, want %s", name, got, kinds)
			}
		}
	})
}

func TestWaitIdleReturnsWhenItsContextEndsOrTheSessionCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "sleep", `{"for":"1h"}`)), modeltest.Text("ok")),
			Tools: []tool.Source{sleeper(t)}, Input: []content.Item{content.UserText("go")},
			TaskManager: task.Async(task.AsyncConfig{Route: routed("c1")}),
		})
		step[*session.AfterToolResult](t, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := d.Calls().WaitIdle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitIdle = %v", err)
		}
		closed := make(chan error)
		go func() { closed <- d.Calls().WaitIdle(t.Context()) }()
		synctest.Wait()
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-closed; !errors.Is(err, session.ErrClosed) {
			t.Errorf("WaitIdle of a closed driver = %v", err)
		}
	})
}

// refusals records refused commands.
type refusals struct{ reasons []string }

func (r *refusals) HandleEvent(o extension.Observed) {
	if e, ok := o.Event.(events.Refused); ok {
		r.reasons = append(r.reasons, e.Reason)
	}
}

func TestObserversSeeRefusedAsks(t *testing.T) {
	t.Parallel()
	seen := &refusals{}
	d := start(t, agent.Config{Model: replies(modeltest.Text("ok")), Observers: []extension.Observer{seen}})
	if err := d.Cancel(t.Context(), ""); reasonOf(err) != "nothing_to_cancel" {
		t.Errorf("Cancel = %v", err)
	}
	if len(seen.reasons) != 1 || seen.reasons[0] != "nothing_to_cancel" {
		t.Errorf("observers heard %v", seen.reasons)
	}
}

func TestNewRefusesTwoMutatorsWithOneName(t *testing.T) {
	t.Parallel()
	_, err := agent.New(agent.Config{Model: replies(modeltest.Text("")), Mutators: []extension.Mutator{named("a"), named("b")}, Compaction: named("a")})
	if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "Mutators" {
		t.Errorf("New = %v", err)
	}
	_, err = agent.New(agent.Config{Model: replies(modeltest.Text("")), MaxParallel: 2})
	if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "MaxParallel" {
		t.Errorf("New with calls beside one another and the simple manager = %v", err)
	}
}

type named string

func (n named) Name() string                                    { return string(n) }
func (named) Mutate(context.Context, *extension.Mutation) error { return nil }

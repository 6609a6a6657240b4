package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// verifier is a verifier function.
type verifier func(ctx context.Context, dir string) (bool, string, error)

func (v verifier) Verify(ctx context.Context, dir string) (pass bool, output string, err error) {
	return v(ctx, dir)
}

// verdicts is a verifier that fails with each text, then passes.
func verdicts(runs *int, noes ...string) extension.Verifier {
	return verifier(func(context.Context, string) (bool, string, error) {
		if *runs++; *runs <= len(noes) {
			return false, noes[*runs-1], nil
		}
		return true, "fine", nil
	})
}

// phases records the phases of a task.
type phases struct{ seen []string }

func (p *phases) HandleEvent(o extension.Observed) {
	if s, ok := o.Event.(events.StateChanged); ok {
		p.seen = append(p.seen, string(s.Phase))
	}
}

func TestATaskGoesThroughItsPhases(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		task   session.Task
		noes   []string
		none   bool
		phases string
		want   session.TaskResult
		err    string
	}{
		"the verifier passes": {
			phases: "planning executing verifying reporting idle",
			want:   session.TaskResult{Status: "done", Summary: "done", VerifyStatus: "passed", Verified: true, Attempts: 1},
		},
		"the second time": {
			task: session.Task{MaxRetries: 3}, noes: []string{"FAIL: x"},
			phases: "planning executing verifying executing verifying reporting idle",
			want:   session.TaskResult{Status: "done", Summary: "done", VerifyStatus: "passed", Verified: true, Attempts: 2},
		},
		"never": {
			task: session.Task{MaxRetries: 1}, noes: []string{"FAIL: x", "FAIL: y"},
			phases: "planning executing verifying executing verifying idle",
			want:   session.TaskResult{Status: "failed", Summary: "done", VerifyStatus: "failed", Attempts: 2},
			err:    "verification failed after 2 attempts: FAIL: y",
		},
		"there is no verifier": {
			none: true, phases: "planning executing reporting idle",
			want: session.TaskResult{Status: "done", Summary: "done", VerifyStatus: "skipped", Verified: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, runs := &phases{}, 0
			d := start(t, agent.Config{Model: replies(modeltest.Text("done")), Observers: []extension.Observer{seen}})
			tc.task.Goal = "fix it"
			if !tc.none {
				tc.task.Verifier = verdicts(&runs, tc.noes...)
			}
			res, err := d.RunTask(t.Context(), tc.task)
			if want := max(tc.want.Attempts, 0); runs != want {
				t.Errorf("the verifier ran %d times, want %d", runs, want)
			}
			if tc.err == "" && err != nil || tc.err != "" && errText(err) != tc.err {
				t.Errorf("err = %v, want %q", err, tc.err)
			}
			if _, ok := errors.AsType[*session.VerifyExhaustedError](err); ok != (tc.err != "") {
				t.Errorf("err is %T", err)
			}
			if res.Turn == nil || res.Turn.FinishReason != content.Completed || res.Turn.Task == nil {
				t.Errorf("turn = %+v", res.Turn)
			}
			res.Turn = nil
			if diff := cmp.Diff(&tc.want, res); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if got := strings.Join(seen.seen, " "); got != tc.phases {
				t.Errorf("phases: %s, want %s", got, tc.phases)
			}
			step[*session.AwaitingInput](t, d)
		})
	}
}

// memory recalls one note and keeps summaries.
type memory struct{ summaries []string }

func (m *memory) Recall(_ context.Context, goal string) ([]content.Item, error) {
	return []content.Item{content.NewItem(content.Context, content.TextPart("known of "+goal))}, nil
}

func (m *memory) Remember(_ context.Context, goal, summary string) error {
	m.summaries = append(m.summaries, goal+": "+summary)
	return nil
}

func TestATaskRecallsNotesAndStoresItsSummary(t *testing.T) {
	t.Parallel()
	var requests []string
	m := modeltest.NewFake("fake", func(_ context.Context, r model.Request) (model.Reply, error) {
		var texts []string
		for _, it := range r.Transcript {
			texts = append(texts, it.Text())
		}
		requests = append(requests, strings.Join(texts, "|"))
		return modeltest.Text("ok"), nil
	})
	mem := &memory{}
	d := start(t, agent.Config{Model: m, Memory: mem, SystemPrompt: "sys"})
	if _, err := d.RunText(t.Context(), "small talk"); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, goal := range []string{"one", "two"} {
		if _, err := d.RunTask(t.Context(), session.Task{Goal: goal, Verifier: verdicts(&runs)}); err != nil {
			t.Fatal(err)
		}
	}
	runs = 0
	if _, err := d.RunTask(t.Context(), session.Task{Goal: "three", Verifier: verdicts(&runs, "no")}); err == nil {
		t.Fatal("a task whose verifier said no is fine")
	}
	want := []string{"sys|small talk", "sys|known of one|one", "sys|known of two|two", "sys|known of three|three"}
	if !slices.Equal(requests, want) {
		t.Errorf("requests = %q, want %q", requests, want)
	}
	if want := []string{"one: ok", "two: ok"}; !slices.Equal(mem.summaries, want) {
		t.Errorf("the memory got %q, want %q", mem.summaries, want)
	}
}

func TestACancelledTaskIsAResult(t *testing.T) {
	t.Parallel()
	hold := func(ctx context.Context, begun func()) error {
		begun()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for stage, build := range map[string]func(begun func()) (agent.Config, extension.Verifier){
		"model": func(begun func()) (agent.Config, extension.Verifier) {
			return agent.Config{Model: modeltest.NewFake("m", func(ctx context.Context, _ model.Request) (model.Reply, error) {
				return model.Reply{}, hold(ctx, begun)
			})}, nil
		},
		"verify": func(begun func()) (agent.Config, extension.Verifier) {
			return agent.Config{Model: replies(modeltest.Text("done"))},
				verifier(func(ctx context.Context, _ string) (bool, string, error) { return false, "no", hold(ctx, begun) })
		},
		"planning": func(begun func()) (agent.Config, extension.Verifier) {
			return agent.Config{Model: replies(modeltest.Text("done")), Memory: stuck{func(ctx context.Context) { _ = hold(ctx, begun) }}}, nil
		},
	} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			c, g := build(cancel)
			seen := &phases{}
			c.Observers = []extension.Observer{seen}
			d := start(t, c)
			res, err := d.RunTask(ctx, session.Task{Goal: "g", Verifier: g, MaxRetries: 2})
			if err != nil || !res.Cancelled || res.Verified || res.Status != session.TaskCancelled {
				t.Errorf("result = %+v, %v", res, err)
			}
			if n := len(seen.seen); n == 0 || seen.seen[n-1] != "idle" {
				t.Errorf("phases: %v", seen.seen)
			}
		})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := start(t, agent.Config{Model: replies(modeltest.Text("never"))})
	if res, err := d.RunTask(over, session.Task{Goal: "g"}); err != nil || !res.Cancelled {
		t.Errorf("with a context that is over: %+v, %v", res, err)
	}
	if d.Snapshot().LastTurn != nil {
		t.Error("a context that is over started a task")
	}
}

// stuck is a memory that never recalls anything.
type stuck struct{ wait func(context.Context) }

func (s stuck) Recall(ctx context.Context, _ string) ([]content.Item, error) {
	s.wait(ctx)
	return nil, context.Cause(ctx)
}

func (stuck) Remember(context.Context, string, string) error { return nil }

func TestAFailedTaskReturnsAnErrorAndItsResult(t *testing.T) {
	t.Parallel()
	runs := 0
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("", "echo", `{"text":"x"}`))), Tools: []tool.Source{echo(t)},
		Limits: events.Limits{MaxRounds: 2},
	})
	res, err := d.RunTask(t.Context(), session.Task{Goal: "g", Verifier: verdicts(&runs)})
	if e, ok := errors.AsType[*session.MaxTurnsError](err); !ok || e.Max != 2 || e.Partial.Turn.Task == nil {
		t.Errorf("err = %v", err)
	}
	if res == nil || res.Status != session.TaskFailed || res.Verified || runs != 0 {
		t.Errorf("result = %+v after %d verifications", res, runs)
	}
	failing := start(t, agent.Config{Model: modeltest.NewFake("down", func(context.Context, model.Request) (model.Reply, error) {
		return model.Reply{}, &model.Error{Class: content.ClassAuth, Message: "no key"}
	})})
	res, err = failing.RunTask(t.Context(), session.Task{Goal: "g"})
	if _, ok := errors.AsType[*session.ProviderError](err); !ok || res == nil || res.Status != session.TaskFailed {
		t.Errorf("with a failing model: %+v, %v", res, err)
	}
	if _, err := failing.RunTask(t.Context(), session.Task{}); reasonOf(err) != "empty_input" {
		t.Errorf("without a goal and an open task: %v", err)
	}
}

func TestATaskContinuesAfterACrashInItsVerifier(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"with its verifier": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := journal.NewMemory()
			c := agent.Config{Model: replies(modeltest.Text("done")), Journal: log}
			ctx, crash := context.WithCancel(t.Context())
			first := start(t, c)
			go func() {
				<-ctx.Done()
				_ = first.Close(context.WithoutCancel(ctx))
			}()
			_, err := first.RunTask(t.Context(), session.Task{Goal: "g", Verifier: verifier(func(gctx context.Context, _ string) (bool, string, error) {
				crash()
				<-gctx.Done()
				return false, "", context.Cause(gctx)
			})})
			if !errors.Is(err, session.ErrClosed) {
				t.Fatalf("RunTask = %v", err)
			}
			second, runs := start(t, c), 0
			if again {
				res, err := second.RunTask(t.Context(), session.Task{Verifier: verdicts(&runs)})
				if err != nil || !res.Verified || runs != 1 {
					t.Errorf("result = %+v, %v", res, err)
				}
				return
			}
			_, err = second.RunTask(t.Context(), session.Task{})
			if e, ok := errors.AsType[*session.VerifyExhaustedError](err); !ok || !strings.Contains(e.Output, "has ended") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

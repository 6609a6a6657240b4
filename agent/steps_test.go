package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

// drained shows what Steps returns, to its end.
func drained(t *testing.T, ctx context.Context, s *agent.Steps) (shown []string) { //nolint:revive // the context is the subject
	t.Helper()
	for {
		res, more := s.Next(ctx)
		if !more {
			return shown
		}
		shown = append(shown, stepText(res))
	}
}

func stepText(res agent.StepResult) string {
	switch res := res.(type) {
	case agent.ToolsExecuted:
		var outs []string
		for _, r := range res.Results {
			outs = append(outs, r.Text())
		}
		return "tools " + strings.Join(outs, ",")
	case agent.FinalResponse:
		return "final " + res.Result.Response
	case agent.CompactionOccurred:
		return fmt.Sprintf("compaction %d %d", res.OldTokens, res.NewTokens)
	case agent.MaxTurnsReached:
		return fmt.Sprintf("max turns %d", res.Max)
	case agent.StepError:
		return "error " + res.Err.Error()
	}
	return "?"
}

func TestStepsYieldEveryRoundAndTheEnd(t *testing.T) {
	t.Parallel()
	compacted := modeltest.Text("summary")
	compacted.FinishReason = content.Compaction
	rounds := replies(modeltest.Calls(call("", "echo", `{"text":"a"}`), call("", "echo", `{"text":"b"}`)), compacted, modeltest.Text("done"))
	forever := replies(modeltest.Calls(call("", "echo", `{"text":"a"}`)))
	for name, tc := range map[string]struct {
		config agent.Config
		want   string
	}{
		"to the final response": {agent.Config{Model: rounds}, "tools a,b|compaction 0 0|final done"},
		"compacted by the host": {
			agent.Config{Model: replies(modeltest.Text("ok")), Compaction: shrink{}}, "compaction 9 4|final ok",
		},
		"max turns": {agent.Config{Model: forever, Limits: events.Limits{MaxRounds: 2}}, "tools a|tools a|max turns 2"},
		"another limit": {
			agent.Config{Model: forever, Limits: events.Limits{Requests: 1}}, "tools a|error request limit exceeded: 2 > 1",
		},
		"a provider's error": {
			agent.Config{Model: modeltest.NewFake("f", func(context.Context, model.Request) (model.Reply, error) {
				return model.Reply{}, &model.Error{Class: content.ClassAuth, Message: "no key"}
			})}, "error model call failed (auth): no key",
		},
		"a compaction that fails": {
			agent.Config{Model: replies(modeltest.Text("never said")), Compaction: placed{
				extension.BeforeModel, func(context.Context, *extension.Mutation) error { return errors.New("no room") },
			}}, "error mutator failed: placed at before_model: no room",
		},
		"nobody approves": {
			agent.Config{Model: forever, Permissions: asking{}}, `error approval pending: echo {"text":"a"} (call t1-r1-c1)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.config.Tools = []tool.Source{echo(t)}
			d := start(t, tc.config)
			s := d.Steps(t.Context(), content.UserText("go"))
			if got := strings.Join(drained(t, t.Context(), s), "|"); got != tc.want {
				t.Errorf("steps: %s, want %s", got, tc.want)
			}
			if res, more := s.Next(t.Context()); more {
				t.Errorf("after the end came %s", stepText(res))
			}
		})
	}
}

// shrink drops the first of the user's words, once.
type shrink struct{}

func (shrink) Name() string { return "shrink" }

func (shrink) Mutate(_ context.Context, m *extension.Mutation) error {
	if m.Point == extension.BeforeModel {
		m.Items[0] = content.UserText("shorter")
		m.OldTokens, m.NewTokens = 9, 4
	}
	return nil
}

func TestStepsAreSteeredBetweenRounds(t *testing.T) {
	t.Parallel()
	var seen []string
	m := modeltest.NewFake("fake", func(_ context.Context, r model.Request) (model.Reply, error) {
		var names []string
		for _, s := range r.Tools {
			names = append(names, s.Name)
		}
		seen = append(seen, kindsOf(r.Transcript)+" with "+strings.Join(names, ","))
		if len(seen) == 1 {
			return modeltest.Calls(call("", "echo", `{"text":"a"}`)), nil
		}
		if len(seen) == 2 {
			return modeltest.Calls(call("", "extra", `{}`)), nil
		}
		return modeltest.Text("done"), nil
	})
	d := start(t, agent.Config{Model: m, Tools: []tool.Source{echo(t)}})
	s := d.Steps(t.Context(), content.UserText("go"))
	s.InjectMessage(content.UserText("first of all"))
	if got := kindsOf(s.Messages()); got != "user user" {
		t.Errorf("messages before the first step: %s", got)
	}
	if res, _ := s.Next(t.Context()); stepText(res) != "tools a" {
		t.Fatalf("the first step = %s", stepText(res))
	}
	extra, err := tool.Func("extra", "More.", func(context.Context, struct{}) (string, error) { return "more", nil })
	if err != nil {
		t.Fatal(err)
	}
	s.ToolsMut().Add(extra)
	s.InjectMessage(content.UserText("by the way"))
	if got := kindsOf(s.Messages()); got != "user user assistant tool user" {
		t.Errorf("messages after the injection: %s", got)
	}
	if got := strings.Join(drained(t, t.Context(), s), "|"); got != "tools more|final done" {
		t.Errorf("then came %s", got)
	}
	want := []string{"user user with echo", "user user assistant tool user with echo,extra", "user user assistant tool user assistant tool with echo,extra"}
	if !slices.Equal(seen, want) {
		t.Errorf("requests: %q, want %q", seen, want)
	}
}

func TestTheEndOfAStepsContextCancels(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := start(t, agent.Config{Model: silent()})
	if got := drained(t, over, d.Steps(over, content.UserText("go"))); len(got) != 1 || got[0] != "error cancelled: context_done" {
		t.Errorf("with a context that is over: %v", got)
	}
	if n := len(d.Snapshot().Transcript) + len(d.Snapshot().PendingInput); n != 0 {
		t.Errorf("%d items were submitted", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := modeltest.NewFake("m", func(mctx context.Context, _ model.Request) (model.Reply, error) {
		cancel()
		<-mctx.Done()
		return model.Reply{}, context.Cause(mctx)
	})
	d = start(t, agent.Config{Model: waiting})
	res, _ := d.Steps(ctx, content.UserText("go")).Next(ctx)
	if e, ok := res.(agent.StepError); !ok || !errors.Is(e.Err, agent.ErrCancelled) {
		t.Errorf("a step whose context ended = %s", stepText(res))
	}
	if res, _ := d.Steps(t.Context()).Next(t.Context()); stepText(res) != "error invalid state: run: empty_input: there is nothing to go on with" {
		t.Errorf("steps without items in an idle session: %s", stepText(res))
	}
}

func TestStepsGoOnAfterAnApproval(t *testing.T) {
	t.Parallel()
	d := start(t, agent.Config{
		Model:       replies(modeltest.Calls(call("c1", "echo", `{"text":"a"}`)), modeltest.Text("done")),
		Permissions: asking{}, Tools: []tool.Source{echo(t)},
	})
	res, _ := d.Steps(t.Context(), content.UserText("go")).Next(t.Context())
	e, ok := res.(agent.StepError)
	if pending, is := errors.AsType[*agent.ApprovalPendingError](e.Err); !ok || !is || len(pending.Approvals) != 1 {
		t.Fatalf("the first step = %s", stepText(res))
	}
	if err := d.ResolveApproval(t.Context(), agent.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(drained(t, t.Context(), d.Steps(t.Context())), "|"); got != "tools a|final done" {
		t.Errorf("then came %s", got)
	}
}

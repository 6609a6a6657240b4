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
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// stepped shows the steps of a turn, to its end.
func stepped(t *testing.T, ctx context.Context, turn *session.Turn) string { //nolint:revive // the context is the subject
	t.Helper()
	var shown []string
	for {
		step, err := turn.Next(ctx)
		shown = append(shown, stepText(step, err)...)
		if _, more := step.(*session.AfterToolResult); !more {
			return strings.Join(shown, "|")
		}
	}
}

func stepText(step session.Step, err error) (shown []string) {
	compacted := func(cs []session.Compaction) {
		for _, c := range cs {
			shown = append(shown, fmt.Sprintf("compaction %d %d", c.OldTokens, c.NewTokens))
		}
	}
	switch step := step.(type) {
	case *session.AfterToolResult:
		compacted(step.Compactions)
		var outs []string
		for _, r := range step.Results {
			outs = append(outs, r.Text())
		}
		return append(shown, "tools "+strings.Join(outs, ","))
	case *session.Finished:
		compacted(step.Compactions)
		return append(shown, string(step.Result.FinishReason)+" "+step.Result.Text())
	case *session.ApprovalRequest:
		return append(shown, "approval "+string(step.CallID))
	case *session.AwaitingInput:
		return append(shown, "input")
	}
	return append(shown, "error "+err.Error())
}

func submitted(t *testing.T, s *session.Session, text string) *session.Turn {
	t.Helper()
	turn, err := s.Submit(t.Context(), session.Input{Items: []content.Item{content.UserText(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestATurnStepsThroughEveryRoundToItsEnd(t *testing.T) {
	t.Parallel()
	compacted := modeltest.Text("summary")
	compacted.FinishReason = content.Compaction
	rounds := replies(modeltest.Calls(call("", "echo", `{"text":"a"}`), call("", "echo", `{"text":"b"}`)), compacted, modeltest.Text("done"))
	forever := replies(modeltest.Calls(call("", "echo", `{"text":"a"}`)))
	for name, tc := range map[string]struct {
		config agent.Config
		want   string
	}{
		"to the final response": {agent.Config{Model: rounds}, "tools a,b|compaction 0 0|completed done"},
		"compacted by the host": {
			agent.Config{Model: replies(modeltest.Text("ok")), Compaction: shrink{}}, "compaction 9 4|completed ok",
		},
		"max turns": {agent.Config{Model: forever, Limits: events.Limits{MaxRounds: 2}}, "tools a|tools a|limit "},
		"another limit": {
			agent.Config{Model: forever, Limits: events.Limits{Requests: 1}}, "tools a|limit ",
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
		"an approval": {
			agent.Config{Model: forever, Permissions: asking{}}, `approval t1-r1-c1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.config.Tools = []tool.Source{echo(t)}
			d := start(t, tc.config)
			if got := stepped(t, t.Context(), submitted(t, d, "go")); got != tc.want {
				t.Errorf("steps: %s, want %s", got, tc.want)
			}
		})
	}
}

// shrink is a compaction that drops the first input, once.
type shrink struct{}

func (shrink) Name() string { return "shrink" }

func (shrink) Mutate(_ context.Context, m *extension.Mutation) error {
	if m.Point == extension.BeforeModel {
		m.Items[0] = content.UserText("shorter")
		m.OldTokens, m.NewTokens = 9, 4
	}
	return nil
}

func TestASteppedTurnTakesInputAndToolsBetweenRounds(t *testing.T) {
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
	own, err := tool.NewRegistry("own")
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{echo(t)}, Policy: permission.AllowAll()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{Tools: own})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Send(t.Context(), session.Steer, content.UserText("first of all")); err != nil {
		t.Fatal(err)
	}
	turn := submitted(t, d, "go")
	step, err := turn.Next(t.Context())
	round, ok := step.(*session.AfterToolResult)
	if !ok || stepText(step, err)[0] != "tools a" {
		t.Fatalf("the first step = %s", stepText(step, err))
	}
	extra, err := tool.Func("extra", "More.", func(context.Context, struct{}) (string, error) { return "more", nil })
	if err != nil {
		t.Fatal(err)
	}
	own.Add(extra)
	if err := round.Submit(t.Context(), content.UserText("by the way")); err != nil {
		t.Fatal(err)
	}
	if got := stepped(t, t.Context(), turn); got != "tools more|completed done" {
		t.Errorf("then came %s", got)
	}
	want := []string{"user user with echo", "user user assistant tool user with echo,extra", "user user assistant tool user assistant tool with echo,extra"}
	if !slices.Equal(seen, want) {
		t.Errorf("requests: %q, want %q", seen, want)
	}
}

// A tool of the session replaces the agent's of the same name until it is removed.
func TestToolsOfASessionReplaceThoseOfTheAgent(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]tool.Collision{"first wins": tool.FirstWins, "last wins": tool.LastWins} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			echoes := func(id string) model.Reply { return modeltest.Calls(call(id, "echo", `{"text":"a"}`)) }
			own, err := tool.NewRegistry("own")
			if err != nil {
				t.Fatal(err)
			}
			d := startAs(t, agent.Config{
				Model: replies(echoes("c1"), echoes("c2"), echoes("c3"), modeltest.Text("done")), Tools: []tool.Source{echo(t)}, Collision: policy,
				Input: []content.Item{content.UserText("go")},
			}, agent.SessionConfig{Tools: own})
			loud, err := tool.Func("echo", "Shouts.", func(_ context.Context, in echoInput) (string, error) { return strings.ToUpper(in.Text), nil })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range []func(){func() { own.Add(loud) }, func() { own.Remove("echo") }, func() {}} {
				got = append(got, step[*session.AfterToolResult](t, d).Results[0].Text())
				change()
			}
			if !slices.Equal(got, []string{"a", "A", "a"}) {
				t.Errorf("the tool said %q", got)
			}
		})
	}
}

func TestASteppedTurnIsCancelledWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := start(t, agent.Config{Model: silent()})
	if _, err := d.Submit(over, session.Input{Items: []content.Item{content.UserText("go")}}); !errors.Is(err, session.ErrCancelled) {
		t.Errorf("Submit with a context that is over = %v", err)
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
	if got := stepped(t, ctx, submitted(t, d, "go")); got != "cancelled " {
		t.Errorf("a step whose context ended = %s", got)
	}
	if got := stepped(t, t.Context(), d.Open()); got != "error invalid state: run: empty_input: no turn is open and no input is queued" {
		t.Errorf("the open turn of an idle session: %s", got)
	}
}

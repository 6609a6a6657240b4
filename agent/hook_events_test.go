package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// watching is a hook that records what it sees at one point.
type watching struct {
	point extension.Point

	mu   sync.Mutex
	seen []extension.HookEvent
}

func (*watching) Name() string                { return "watching" }
func (w *watching) Points() []extension.Point { return []extension.Point{w.point} }

func (w *watching) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, e)
	return extension.Action{}, nil
}

// calls returns the inputs of the calls that the hook saw.
func (w *watching) calls() (inputs []string) {
	for _, e := range w.seen {
		inputs = append(inputs, string(e.Call.Input))
	}
	return inputs
}

func TestAHookSeesTheWholeReply(t *testing.T) {
	t.Parallel()
	texts := func(all ...string) model.Reply {
		r := model.Reply{FinishReason: content.Completed, Usage: content.Usage{OutputTokens: 3}}
		for _, text := range all {
			r.Items = append(r.Items, content.NewItem(content.Assistant, content.TextPart(text)))
		}
		return r
	}
	for name, last := range map[string][]string{"several items": {"the password is 1234", "Done."}, "no item": nil} {
		hook := &watching{point: extension.PostLlmCall}
		s := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), texts(last...)),
			Tools: []tool.Source{echo(t)}, Hooks: []extension.Hook{hook},
		})
		if _, err := s.Run(t.Context(), content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, it := range hook.seen[1].Reply.Items {
			got = append(got, it.Text())
		}
		if !slices.Equal(got, last) {
			t.Errorf("%s: the hook saw %q, want %q", name, got, last)
		}
	}
}

// Calls that are refused, or that wait for an approval, do not run, so no hook sees them.
func TestAHookSeesTheCallsThatRun(t *testing.T) {
	t.Parallel()
	hook := &watching{point: extension.PreToolExecution}
	s := start(t, agent.Config{
		Model: replies(
			modeltest.Calls(call("c1", "unknown", `{}`), call("c2", "echo", `{"text":1}`), call("c3", "echo", `{"text":"second"}`)),
			modeltest.Text("done"),
		),
		Tools: []tool.Source{echo(t)}, Hooks: []extension.Hook{hook},
	})
	if _, err := s.Run(t.Context(), content.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"text":"second"}`}, hook.calls()); diff != "" {
		t.Errorf("calls that the hook saw (-want +got)\n%s", diff)
	}
}

func TestAHookSeesAnApprovedCallOnceWithItsPatchedInput(t *testing.T) {
	t.Parallel()
	hook := &watching{point: extension.PreToolExecution}
	s := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c2", "echo", `{"text":"b"}`)), modeltest.Text("done")),
		Tools: []tool.Source{echo(t)}, Hooks: []extension.Hook{hook}, Permissions: asking{}, Input: []content.Item{content.UserText("go")},
	})
	patched := json.RawMessage(`{"text":"patched"}`)
	for range 2 {
		ask := step[*session.ApprovalRequest](t, s)
		if err := s.ResolveApproval(t.Context(), session.Decision{Call: ask.CallID, Approve: true, Input: patched}); err != nil {
			t.Fatal(err)
		}
	}
	step[*session.AfterToolResult](t, s)
	if diff := cmp.Diff([]string{string(patched), string(patched)}, hook.calls()); diff != "" {
		t.Errorf("calls that the hook saw (-want +got)\n%s", diff)
	}
}

// The request that a hook sees is the one that the model gets.
func TestAHookSeesTheWholeRequest(t *testing.T) {
	t.Parallel()
	var asked model.Request
	hook := &watching{point: extension.PreLlmCall}
	s := start(t, agent.Config{
		Model: modeltest.NewFake("fake", func(_ context.Context, r model.Request) (model.Reply, error) {
			asked = r
			return modeltest.Text(`{"n":1}`), nil
		}),
		Tools: []tool.Source{echo(t)}, Hooks: []extension.Hook{hook},
		Output: &events.Output{Schema: json.RawMessage(`{"type":"object"}`)},
		Cache:  &model.CacheRequest{Mode: "best_effort"},
	})
	for _, mode := range []string{"best_effort", "required"} {
		if mode == "required" {
			if err := s.SetNextTurnCache(t.Context(), model.CacheRequest{Mode: mode}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Run(t.Context(), content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		got := *hook.seen[len(hook.seen)-1].Request
		if diff := cmp.Diff(asked, got); diff != "" {
			t.Errorf("request (-model +hook)\n%s", diff)
		}
		if got.Cache == nil || got.Cache.Mode != mode || string(got.Schema) != `{"type":"object"}` {
			t.Errorf("cache %v, schema %s", got.Cache, got.Schema)
		}
	}
}

// A compaction is a mutation that makes the transcript smaller, before a model call or after tools.
func TestAMutationThatSavesTokensIsACompaction(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at       extension.Point
		from, to int64
		want     []session.Compaction
	}{
		"an edit":               {at: extension.BeforeModel},
		"a larger transcript":   {at: extension.BeforeModel, from: 4, to: 10},
		"before the model":      {at: extension.BeforeModel, from: 10, to: 4, want: []session.Compaction{{OldTokens: 10, NewTokens: 4}}},
		"after the tool result": {at: extension.AfterToolResult, from: 10, to: 4, want: []session.Compaction{{OldTokens: 10, NewTokens: 4}}},
	} {
		hook, done := &watching{point: extension.ContextCompaction}, false
		s := start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("done")),
			Tools: []tool.Source{echo(t)}, Hooks: []extension.Hook{hook}, Input: []content.Item{content.UserText("go")},
			Mutators: []extension.Mutator{placed{tc.at, func(_ context.Context, m *extension.Mutation) error {
				if !done {
					m.OldTokens, m.NewTokens = tc.from, tc.to
					m.Items[0].Parts[0].Text, done = "edited", true
				}
				return nil
			}}},
		})
		got := step[*session.AfterToolResult](t, s).Compactions
		got = append(got, step[*session.Finished](t, s).Compactions...)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: compactions (-want +got)\n%s", name, diff)
		}
		if len(hook.seen) != len(tc.want) {
			t.Errorf("%s: the hook ran %d times", name, len(hook.seen))
		}
	}
}

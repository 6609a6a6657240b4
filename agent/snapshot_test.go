package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// midway is a session that waits for an approval in its second turn, with input
// queued and a cache override.
func midway(t *testing.T, log journal.Journal) *session.Session {
	t.Helper()
	d := start(t, agent.Config{
		Model: replies(modeltest.Text("hello"), modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c2", "echo", `{"text":"b"}`)), modeltest.Text("ok")),
		Tools: []tool.Source{echo(t)}, Permissions: asking{}, Journal: log, SystemPrompt: "sys",
	})
	if _, err := d.RunText(t.Context(), "hi"); err != nil {
		t.Fatal(err)
	}
	if err := d.Send(t.Context(), session.Steer, content.UserText("go")); err != nil {
		t.Fatal(err)
	}
	step[*session.ApprovalRequest](t, d)
	if err := d.Send(t.Context(), session.Queue, content.UserText("later")); err != nil {
		t.Fatal(err)
	}
	if err := d.SetNextTurnCache(t.Context(), model.CacheRequest{Mode: "required"}); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestASnapshotDescribesTheSession(t *testing.T) {
	t.Parallel()
	s := midway(t, journal.NewMemory()).Snapshot()
	if s.Turn != "turn-2" || s.Round != 1 || len(s.PendingApprovals) != 2 || len(s.PendingInput) != 1 || len(s.Calls) != 2 ||
		s.NextCache == nil || s.LastTurn == nil || s.Requests != 2 || s.ToolCalls != 2 || s.Phase != "idle" {
		t.Errorf("snapshot = %+v", s)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again session.Snapshot
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, again); diff != "" {
		t.Errorf("after a round trip (-before +after):\n%s", diff)
	}
	state, err := snapshot.Decode(again.State)
	if err != nil || loop.Waiting(state) != "approval" || len(state.PendingApprovals()) != 2 {
		t.Errorf("the state = %+v, %v", state, err)
	}
}

func TestASessionCanStartFromASnapshot(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	s := midway(t, log).Snapshot()
	var caches []string
	m := modeltest.NewFake("m", func(_ context.Context, r model.Request) (model.Reply, error) {
		mode := "none"
		if r.Cache != nil {
			mode = r.Cache.Mode
		}
		caches = append(caches, mode)
		return modeltest.Text("go on"), nil
	})
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{echo(t)}, Permissions: asking{}, Journal: log, SystemPrompt: "not this",
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s2", Resume: &s})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []content.CallID{"c1", "c2"} {
		ask := step[*session.ApprovalRequest](t, d)
		if ask.CallID != want || len(ask.Input) == 0 {
			t.Errorf("the approval = %+v, want that of %s", ask.Approval, want)
		}
		if err := ask.Approve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := step[*session.AfterToolResult](t, d); len(got.Results) != 2 || got.Results[1].Text() != "b" {
		t.Errorf("after the tools: %+v", got)
	}
	if got := step[*session.Finished](t, d).Result; got.TurnID != "turn-1" || got.Text() != "go on" {
		t.Errorf("result = %+v", got)
	}
	if got := step[*session.Finished](t, d).Result; got.TurnID != "turn-2" || got.Text() != "go on" {
		t.Errorf("result of the pending input = %+v", got)
	}
	var shown []string
	for _, it := range d.Snapshot().Transcript {
		shown = append(shown, string(it.Kind)+" "+it.Text())
	}
	want := "system sys|user hi|assistant hello|user go|assistant |tool |tool |assistant go on|user later|assistant go on"
	if got := strings.Join(shown, "|"); got != want || strings.Join(caches, " ") != "required none" {
		t.Errorf("transcript: %s, caches %v", got, caches)
	}
	if got := recorded[events.RunStarted](t, log, "s2"); len(got) != 1 || got[0].From != s.From() {
		t.Errorf("the session's start = %+v", got)
	}
	_, err = a.Start(t.Context(), agent.SessionConfig{ID: "s2", Resume: &s})
	if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "SessionConfig.Resume" {
		t.Errorf("Start of a session that is known = %v", err)
	}
}

func TestASnapshotAtAYieldGoesOnAtTheYield(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c2", "none", `{}`))), Tools: []tool.Source{echo(t)}, Journal: log,
		Input: []content.Item{content.UserText("go")},
	})
	step[*session.AfterToolResult](t, d)
	s := d.Snapshot()
	d = startAs(t, agent.Config{Model: replies(modeltest.Text("done")), Journal: log}, agent.SessionConfig{ID: "s2", Resume: &s})
	if got := step[*session.AfterToolResult](t, d); len(got.Results) != 2 || got.Results[0].Text() != "a" || got.Results[1].Status != content.StatusError {
		t.Errorf("the yield = %+v", got)
	}
	if got := step[*session.Finished](t, d).Result; got.Text() != "done" {
		t.Errorf("result = %+v", got)
	}
	recorded[events.TurnFinished](t, log, "s2") // audits it
}

// A running call stays with its session; calls that wait for it run in the new one.
func TestACallInFlightIsUnknownToAContinuation(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	var held session.Snapshot
	var d *session.Session
	slow, err := tool.Func("slow", "Is slow.", func(context.Context, struct{}) (string, error) {
		held = d.Snapshot()
		return "ran", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	both, _ := echo(t).(*tool.Registry)
	both.Add(slow)
	d = start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "slow", `{}`), call("c2", "echo", `{"text":"b"}`))), Tools: []tool.Source{both},
		Journal: log, Input: []content.Item{content.UserText("go")},
	})
	step[*session.AfterToolResult](t, d)
	d = startAs(t, agent.Config{
		Model: replies(modeltest.Text("done")), Tools: []tool.Source{both}, Journal: log,
	}, agent.SessionConfig{ID: "s2", Resume: &held})
	got := step[*session.AfterToolResult](t, d)
	if len(got.Results) != 2 || got.Results[0].Status != content.StatusUnknown || got.Results[1].Text() != "b" {
		t.Errorf("the results = %+v", got.Results)
	}
	step[*session.Finished](t, d)
	recorded[events.TurnFinished](t, log, "s2")
}

// A call that has ended does not run again in a continuation, also while its result waits for that of an earlier call.
func TestACallThatEndedIsNotRepeatedInAContinuation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory()
		var held session.Snapshot
		var d *session.Session
		slow, err := tool.Func("slow", "Is slow.", func(context.Context, struct{}) (string, error) {
			synctest.Wait() // until the result of the other call is recorded
			held = d.Snapshot()
			return "ran", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		both, _ := echo(t).(*tool.Registry)
		both.Add(slow)
		d = start(t, agent.Config{
			Model: replies(modeltest.Calls(call("c1", "slow", `{}`), call("c2", "echo", `{"text":"b"}`))), Tools: []tool.Source{both},
			Journal: log, Input: []content.Item{content.UserText("go")}, MaxParallel: 2, TaskManager: task.Async(task.AsyncConfig{}),
		})
		step[*session.AfterToolResult](t, d)
		d = startAs(t, agent.Config{
			Model: replies(modeltest.Text("done")), Journal: log,
		}, agent.SessionConfig{ID: "s2", Resume: &held})
		got := step[*session.AfterToolResult](t, d)
		if len(held.Calls) != 1 || len(got.Results) != 2 || got.Results[0].Status != content.StatusUnknown || got.Results[1].Text() != "b" {
			t.Errorf("the results = %+v", got.Results)
		}
		step[*session.Finished](t, d)
		recorded[events.TurnFinished](t, log, "s2")
	})
}

// watcher is a hook at the session's ends.
type watcher struct {
	refuses bool
	seen    *[]string
}

func (watcher) Name() string { return "watcher" }
func (watcher) Points() []extension.Point {
	return []extension.Point{extension.SessionStart, extension.SessionEnd}
}

func (h watcher) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	*h.seen = append(*h.seen, string(e.Point)+" "+string(e.Session))
	if h.refuses {
		return extension.Action{Kind: extension.Terminate, Reason: "closed"}, nil
	}
	return extension.Action{Kind: extension.Skip}, nil
}

func TestHooksRunAtTheSessionsStartAndEnd(t *testing.T) {
	t.Parallel()
	var seen []string
	d := start(t, agent.Config{Model: replies(modeltest.Text("ok")), Hooks: []extension.Hook{watcher{seen: &seen}}})
	if _, err := d.RunText(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(seen, "|"); got != "session_start s|session_end s" {
		t.Errorf("the hook saw %s", got)
	}
	log := journal.NewMemory()
	a, err := agent.New(agent.Config{Model: replies(modeltest.Text("ok")), Journal: log, Hooks: []extension.Hook{watcher{true, &seen}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if e, ok := errors.AsType[*session.HookTerminatedError](err); !ok || e.Hook != "watcher" || e.Reason != "closed" {
		t.Errorf("Start = %v", err)
	}
	for rec, err := range log.Read(t.Context(), "s", 0) {
		t.Errorf("it is in the journal: %+v, %v", rec, err)
	}
}

// Resume continues a conversation, so the agent's opening input is not sent again.
func TestASessionFromASnapshotDoesNotRepeatTheOpeningInput(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	var asked atomic.Int64
	a, err := agent.New(agent.Config{
		Model: modeltest.NewFake("fake", func(context.Context, model.Request) (model.Reply, error) {
			asked.Add(1)
			return modeltest.Text("hello"), nil
		}),
		Journal: log, Input: []content.Item{content.UserText("open")},
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := a.Start(t.Context(), agent.SessionConfig{ID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	step[*session.Finished](t, first)
	snap := first.Snapshot()
	second, err := a.Start(t.Context(), agent.SessionConfig{ID: "s2", Resume: &snap})
	if err != nil {
		t.Fatal(err)
	}
	step[*session.AwaitingInput](t, second)
	if n := asked.Load(); n != 1 {
		t.Errorf("the model was called %d times", n)
	}
	if got := kindsOf(second.Snapshot().Transcript); got != "user assistant" {
		t.Errorf("transcript = %s", got)
	}
}

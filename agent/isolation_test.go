package agent_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// A program may change what it was given: the session has its own copy.
func TestResultsAndSnapshotsShareNoMemoryWithTheSession(t *testing.T) {
	t.Parallel()
	s := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("done")), Tools: []tool.Source{echo(t)},
	})
	res, err := s.Run(t.Context(), content.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), session.Queue, content.UserText("later")); err != nil {
		t.Fatal(err)
	}
	before := s.Snapshot()
	spoil := func(lists ...[]content.Item) {
		for _, items := range lists {
			for i := range items {
				p := &items[i].Parts[0]
				p.Text = "spoiled"
				if p.Call != nil {
					p.Call.Name, p.Call.Input[0] = "spoiled", 'x'
				}
				if p.Result != nil {
					p.Result.Output[0].Text = "spoiled"
				}
			}
		}
	}
	got := s.Snapshot()
	spoil(res.Messages, res.Turn.Items, got.Transcript, got.PendingInput, got.LastTurn.Items)
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		t.Errorf("the session changed (-before +after)\n%s", diff)
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

// A stream reports that a model call is repeated, so its reader can drop what it has shown.
func TestAStreamMarksAnotherAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, agent.Config{Model: &stuttering{}})
		var shown strings.Builder
		for ev, err := range s.Stream(t.Context(), content.UserText("go")) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case session.TextDelta:
				shown.WriteString(ev.Text)
			case session.Retry:
				if ev.Attempt != 2 {
					t.Errorf("attempt %d", ev.Attempt)
				}
				shown.Reset()
			case session.ReasoningDelta, session.ToolUse, session.ToolDone, session.UsageUpdate, session.MessageComplete:
			}
		}
		if shown.String() != "Hello" {
			t.Errorf("shown is %q", shown.String())
		}
	})
}

// stuttering is a model whose first attempt fails in the middle.
type stuttering struct{ attempts int }

func (*stuttering) Name() string                     { return "stuttering" }
func (*stuttering) Capabilities() model.Capabilities { return model.Capabilities{} }

func (m *stuttering) Call(_ context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	text := "Hello"
	if m.attempts++; m.attempts == 1 {
		text = "Hel"
	}
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: text})
	if m.attempts == 1 {
		return model.Reply{}, &model.Error{Class: content.ClassNetwork, Message: "reset"}
	}
	return modeltest.Text(text), nil
}

func TestNextDoesNothingWhenItsContextHasEnded(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	log := journal.NewMemory()
	s := start(t, agent.Config{
		Model: modeltest.NewFake("fake", func(context.Context, model.Request) (model.Reply, error) {
			asked.Add(1)
			return modeltest.Text("hello"), nil
		}),
		Journal: log, Input: []content.Item{content.UserText("go")},
	})
	over, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-over.Done()
	for range 11 {
		if _, err := s.Next(over); err != context.Cause(over) { //nolint:errorlint // exactly the cause
			t.Fatalf("Next = %v", err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the model was called %d times", n)
	}
	step[*session.Finished](t, s)
	if n := len(recorded[events.ModelCallStarted](t, log, "s")); n != 1 {
		t.Errorf("%d model calls are recorded", n)
	}
}

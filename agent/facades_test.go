package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

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

// endings are configurations whose turns end in every way that an outcome can have.
func endings(t *testing.T) map[string]agent.Config {
	t.Helper()
	says := func(finish content.FinishReason) model.Reply {
		r := modeltest.Text("text " + string(finish))
		r.FinishReason, r.Usage = finish, content.Usage{InputTokens: 2, OutputTokens: 1}
		return r
	}
	calls := modeltest.Calls(call("", "echo", `{"text":"1"}`), call("", "nothing", `{"text":"2"}`), call("", "echo", `{"text":"3"}`))
	calls.Usage = content.Usage{InputTokens: 5, OutputTokens: 2}
	fails := func(class content.ErrorClass) model.Model {
		return modeltest.NewFake("broken", func(context.Context, model.Request) (model.Reply, error) {
			return model.Reply{}, &model.Error{Class: class, Message: "no", Usage: content.Usage{InputTokens: 3}}
		})
	}
	rounds, noRoom := replies(calls, calls, says("")), placed{extension.BeforeModel, func(context.Context, *extension.Mutation) error { return errors.New("no room") }}
	all := map[string]agent.Config{
		"an answer":               {Model: rounds},
		"a compaction":            {Model: replies(calls, says(content.Compaction), says("")), Compaction: shrink{}},
		"a compaction that fails": {Model: rounds, Compaction: noRoom},
		"too many tokens":         {Model: replies(calls, says(content.MaxTokens))},
		"a blocked answer":        {Model: replies(says(content.Blocked))},
		"rounds":                  {Model: rounds, Limits: events.Limits{MaxRounds: 1}},
		"requests":                {Model: rounds, Limits: events.Limits{Requests: 2}},
		"tool calls":              {Model: rounds, Limits: events.Limits{ToolCalls: 2}},
		"the session's tokens":    {Model: rounds, SessionLimits: events.Limits{OutputTokens: 3}},
		"a tool's error":          {Model: rounds, OnToolError: agent.FailRun},
		"a hook":                  {Model: rounds, Hooks: []extension.Hook{nth{2}}},
		"no access":               {Model: fails(content.ClassAuth)},
		"a broken server":         {Model: fails(content.ClassServer)},
	}
	for name, c := range all {
		c.Tools, c.Retry = []tool.Source{echo(t)}, events.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, ModelAttempts: 4}
		all[name] = c
	}
	return all
}

// nth is a hook that ends the turn in a round.
type nth struct{ round int }

func (nth) Name() string { return "nth" }
func (nth) Points() []extension.Point {
	return []extension.Point{extension.PreLlmCall}
}

func (n nth) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	if e.Round != n.round {
		return extension.Action{}, nil
	}
	return extension.Action{Kind: extension.Terminate, Reason: "enough"}, nil
}

// outcome is the result of one facade.
type outcome struct {
	Err        string
	Response   string
	Usage      content.Usage
	Items      []string // of the assistant
	Transcript []string
	Facts      []string
}

// facades drive a turn to its end.
func facades() map[string]func(*testing.T, *session.Session) (*session.RunResult, error) {
	input := content.UserText("go")
	return map[string]func(*testing.T, *session.Session) (*session.RunResult, error){
		"run": func(t *testing.T, d *session.Session) (*session.RunResult, error) {
			t.Helper()
			res, err := d.Run(t.Context(), input)
			if res == nil {
				res = partialOf(err)
			}
			return res, err
		},
		"stream": func(t *testing.T, d *session.Session) (*session.RunResult, error) {
			t.Helper()
			return collected(d.Stream(t.Context(), input))
		},
		"steps": func(t *testing.T, d *session.Session) (*session.RunResult, error) {
			t.Helper()
			turn := submitted(t, d, "go")
			for {
				switch step, err := turn.Next(t.Context()); step := step.(type) {
				case *session.Finished:
					return step.Outcome()
				case *session.AfterToolResult:
				case nil:
					return partialOf(err), err
				case *session.ApprovalRequest, *session.AwaitingInput:
					t.Fatalf("%T is no step of this turn", step)
				}
			}
		},
		"next": func(t *testing.T, d *session.Session) (*session.RunResult, error) {
			t.Helper()
			if err := d.Send(t.Context(), session.Steer, input); err != nil {
				t.Fatal(err)
			}
			for {
				step, err := d.Next(t.Context())
				if err != nil {
					return partialOf(err), err
				}
				fin, ok := step.(*session.Finished)
				if !ok {
					continue
				}
				return fin.Outcome()
			}
		},
	}
}

// collected combines what a stream yields.
func collected(events func(func(session.StreamEvent, error) bool)) (*session.RunResult, error) {
	res := &session.RunResult{}
	var failed error
	for ev, err := range events {
		if err != nil {
			failed = err
			break
		}
		switch ev := ev.(type) {
		case session.MessageComplete:
			res.Turn.Items = append(res.Turn.Items, ev.Item)
			res.Response = ev.Item.Text()
		case session.UsageUpdate:
			res.Usage = res.Usage.Add(ev.Usage)
		case session.TextDelta, session.ReasoningDelta, session.Retry, session.ToolUse, session.ToolDone:
		}
	}
	return res, failed
}

func partialOf(err error) *session.RunResult {
	if e, ok := errors.AsType[*session.ProviderError](err); ok {
		return e.Partial
	}
	if e, ok := errors.AsType[*session.ToolError](err); ok {
		return e.Partial
	}
	if e, ok := errors.AsType[*session.MutatorError](err); ok {
		return e.Partial
	}
	if e, ok := errors.AsType[*session.HookTerminatedError](err); ok {
		return e.Partial
	}
	if e, ok := errors.AsType[*session.UsageLimitError](err); ok {
		return e.Partial
	}
	return nil
}

func TestAllFacadesGiveTheSameOutcome(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	for ending, c := range endings(t) {
		outcomes := map[string]outcome{}
		for name, drive := range facades() {
			c.Journal = journal.NewMemory()
			d := start(t, c)
			res, err := drive(t, d)
			if res == nil {
				t.Fatalf("%s: %s returned no result: %v", ending, name, err)
			}
			messages := res.Messages()
			if name == "stream" {
				messages = d.Snapshot().Transcript
			}
			o := outcome{Err: errText(err), Response: res.Response, Usage: res.Usage, Transcript: texts(messages), Facts: facts(t, c.Journal)}
			for _, it := range res.Turn.Items {
				o.Items = append(o.Items, it.Text())
			}
			outcomes[name] = o
			ends[fmt.Sprintf("%T", err)]++
		}
		for name, got := range outcomes {
			if diff := cmp.Diff(outcomes["run"], got); diff != "" {
				t.Errorf("%s: %s differs (-run +%s):\n%s", ending, name, name, diff)
			}
		}
	}
	for _, err := range []error{
		nil, &session.MaxTurnsError{}, &session.UsageLimitError{}, &session.HookTerminatedError{}, &session.ProviderError{}, &session.ToolError{},
		&session.MutatorError{},
	} {
		if ends[fmt.Sprintf("%T", err)] == 0 {
			t.Errorf("no turn ended in %T: %v", err, ends)
		}
	}
}

func texts(items []content.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, fmt.Sprintf("%s %s %s %v", it.ID, it.Kind, it.Text(), it.Calls()))
	}
	return out
}

// facts are the events of a journal without its times, and without the options in
// which the facades differ.
func facts(t *testing.T, j journal.Journal) []string {
	t.Helper()
	var out []string
	for rec, err := range j.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			raw, err := events.MarshalEvent(ev)
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"options", "duration_ns", "retry_at", "retry_until", "replacement", "config", "before", "after"} {
				delete(m, key)
			}
			out = append(out, fmt.Sprint(m))
		}
	}
	return out
}

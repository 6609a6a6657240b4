package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

// script is a random configuration and what its model says.
type script struct {
	seed uint64
	*rand.Rand
}

func newScript(seed uint64) script { return script{seed, rand.New(rand.NewPCG(seed, 1))} } //nolint:gosec // repeatable on purpose

func (s script) oneIn(n int) bool { return s.IntN(n) == 0 }

// config is the same however often it is asked for.
func (s script) config(t *testing.T) agent.Config {
	t.Helper()
	replies := make([]func() (model.Reply, error), 1+s.IntN(5))
	for i := range replies {
		replies[i] = s.reply(i == len(replies)-1)
	}
	c := agent.Config{
		Model: modeltest.NewFake("random", func(_ context.Context, r model.Request) (model.Reply, error) {
			n := 0
			for _, it := range r.Transcript {
				if it.Kind == content.Assistant {
					n++
				}
			}
			if n >= len(replies) {
				return modeltest.Text("enough"), nil
			}
			return replies[n]()
		}),
		Tools: []tool.Source{echo(t)}, Journal: journal.NewMemory(), Retry: events.Retry{Backoff: time.Microsecond},
	}
	switch s.IntN(8) {
	case 0:
		c.Limits.MaxRounds = 1 + s.Int64N(3)
	case 1:
		c.Limits.Requests = 1 + s.Int64N(3)
	case 2:
		c.Limits.ToolCalls = 1 + s.Int64N(3)
	case 3:
		c.SessionLimits.OutputTokens = 1 + s.Int64N(8)
	}
	if s.oneIn(4) {
		c.OnToolError = agent.FailRun
	}
	if s.oneIn(4) {
		c.Compaction = shrink{}
	}
	if s.oneIn(12) {
		c.Compaction = placed{extension.BeforeModel, func(context.Context, *extension.Mutation) error { return errors.New("no room") }}
	}
	if s.oneIn(4) {
		c.Hooks = []extension.Hook{nth{s.IntN(4)}}
	}
	return c
}

func (s script) reply(last bool) func() (model.Reply, error) {
	r := modeltest.Text(fmt.Sprint("text ", s.IntN(100)))
	if !last || s.oneIn(4) {
		var calls []content.ToolCall
		for range 1 + s.IntN(3) {
			name := []string{"echo", "echo", "nothing"}[s.IntN(3)]
			calls = append(calls, call("", name, fmt.Sprintf(`{"text":"%d"}`, s.IntN(100))))
		}
		r = modeltest.Calls(calls...)
	}
	if s.oneIn(8) {
		r.FinishReason = []content.FinishReason{content.Compaction, content.MaxTokens, content.Blocked}[s.IntN(3)]
	}
	r.Usage = content.Usage{InputTokens: s.Int64N(9), OutputTokens: s.Int64N(3)}
	if s.oneIn(12) {
		err := &model.Error{Class: []content.ErrorClass{content.ClassAuth, content.ClassServer}[s.IntN(2)], Message: "no", Usage: r.Usage}
		return func() (model.Reply, error) { return model.Reply{}, err }
	}
	return func() (model.Reply, error) { return r, nil }
}

// nth is a hook that ends the turn in a round.
type nth struct{ round int }

func (nth) Name() string { return "nth" }
func (nth) Points() []extension.Point {
	return []extension.Point{extension.PreLlmCall, extension.PostLlmCall, extension.PreToolExecution}
}

func (n nth) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	if e.Round != n.round {
		return extension.Action{}, nil
	}
	if e.Point == extension.PreToolExecution {
		return extension.Action{Kind: extension.Skip, Reason: "no"}, nil
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
			return collected(d.Stream(t.Context(), input), d)
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

// collected puts together what a stream yields.
func collected(events func(func(session.StreamEvent, error) bool), d *session.Session) (*session.RunResult, error) {
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
		case session.TextDelta, session.ReasoningDelta, session.ToolUse, session.ToolDone:
		}
	}
	res.Messages = d.Snapshot().Transcript
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
	for seed := range uint64(60) {
		outcomes := map[string]outcome{}
		for name, drive := range facades() {
			c := newScript(seed).config(t)
			d := start(t, c)
			res, err := drive(t, d)
			if res == nil {
				t.Fatalf("seed %d: %s returned no result: %v", seed, name, err)
			}
			o := outcome{Err: errText(err), Response: res.Response, Usage: res.Usage, Transcript: texts(res.Messages), Facts: facts(t, c.Journal)}
			for _, it := range res.Turn.Items {
				o.Items = append(o.Items, it.Text())
			}
			outcomes[name] = o
			ends[fmt.Sprintf("%T", err)]++
		}
		for name, got := range outcomes {
			if diff := cmp.Diff(outcomes["run"], got); diff != "" {
				t.Fatalf("seed %d: %s differs (-run +%s):\n%s", seed, name, name, diff)
			}
		}
	}
	for _, err := range []error{
		nil, &session.MaxTurnsError{}, &session.UsageLimitError{}, &session.HookTerminatedError{}, &session.ProviderError{}, &session.ToolError{},
		&session.MutatorError{},
	} {
		if ends[fmt.Sprintf("%T", err)] == 0 {
			t.Errorf("no seed ended in %T: %v", err, ends)
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
			for _, key := range []string{"options", "duration_ns", "retry_at", "replacement", "config", "before", "after"} {
				delete(m, key)
			}
			out = append(out, fmt.Sprint(m))
		}
	}
	return out
}

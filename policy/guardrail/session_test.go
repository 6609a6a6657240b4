package guardrail_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/guardrail"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

const script = `
replies:
  - text: I look.
    calls: [{name: look, input: {}}]
  - text: "I saw {{(index .Results 0).Text}}."
    repeat: true
`

// counted counts the calls of a model.
type counted struct {
	model.Model
	calls *int
}

func (m counted) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	*m.calls++
	return m.Model.Call(ctx, r, emit)
}

// guarded returns a session with a tool and a guard with the checks.
func guarded(t *testing.T, calls *int, c guardrail.Config, wrap func(extension.Hook) extension.Hook) (*session.Session, *journal.Memory) {
	t.Helper()
	look, err := tool.Func("look", "Looks.", func(context.Context, struct{}) (string, error) { return "a bird", nil }, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewRegistry("test", look)
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("test", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	log := journal.NewMemory()
	var hook extension.Hook = newGuard(t, c)
	if wrap != nil {
		hook = wrap(hook)
	}
	a, err := agent.New(agent.Config{
		Model: counted{m, calls}, Policy: permission.AllowAll(), Tools: []tool.Source{tools}, Hooks: []extension.Hook{hook}, Journal: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d, log
}

// terminations returns the decisions that ended turns.
func terminations(t *testing.T, log *journal.Memory) (out []events.HookDecided) {
	t.Helper()
	for rec, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if h, ok := ev.(events.HookDecided); ok && h.Action == extension.Terminate.String() {
				out = append(out, h)
			}
		}
	}
	return out
}

func TestAFailedCheckEndsTheTurnAndNotTheSession(t *testing.T) {
	t.Parallel()
	birds := []guardrail.Check{deny(t, "birds", "bird")}
	for name, c := range map[string]struct {
		cfg    guardrail.Config
		input  string
		point  extension.Point
		calls  int // of the model, in the turn that is stopped
		text   string
		hidden bool
	}{
		"input":  {guardrail.Config{Input: birds}, "a bird", extension.PreLlmCall, 0, "", false},
		"result": {guardrail.Config{Results: birds}, "look", extension.PostToolExecution, 1, "I look.", false},
		"output": {guardrail.Config{Output: birds}, "look", extension.PostLlmCall, 2, "I saw a bird.", true},
	} {
		calls := 0
		d, log := guarded(t, &calls, c.cfg, nil)
		_, err := d.RunText(t.Context(), c.input)
		stopped, ok := errors.AsType[*session.HookTerminatedError](err)
		if !ok || stopped.Hook != "guardrail" || stopped.Point != c.point || stopped.Reason != "birds: matches bird" {
			t.Fatalf("%s: Run = %v", name, err)
		}
		if stopped.Partial.Response != c.text || calls != c.calls {
			t.Errorf("%s: %q after %d calls", name, stopped.Partial.Response, calls)
		}
		if c.hidden {
			last := stopped.Partial.Turn.Items[len(stopped.Partial.Turn.Items)-1]
			if raw, ok := last.Metadata.Get(content.MetaWithheld); !ok || string(raw) != "true" {
				t.Errorf("%s: the reply is marked %s", name, raw)
			}
		}
		if got := terminations(t, log); len(got) != 1 || got[0].Hook != "guardrail" || got[0].Reason != stopped.Reason {
			t.Errorf("%s: recorded %+v", name, got)
		}
		// Stopped input is not checked again.
		if _, err := d.RunText(t.Context(), "go on"); name == "input" && err != nil {
			t.Errorf("%s: the next turn ends with %v", name, err)
		}
	}
}

func TestInputIsCheckedOncePerTurn(t *testing.T) {
	t.Parallel()
	var read []string
	calls := 0
	d, _ := guarded(t, &calls, guardrail.Config{Input: []guardrail.Check{warning(says("c", "hm", nil, &read))}}, nil)
	res, err := d.RunText(t.Context(), "look")
	if err != nil || res.Response != "I saw a bird." || calls != 2 || len(read) != 1 {
		t.Errorf("Run = %+v, %v; the check read %q", res, err, read)
	}
}

func TestAnErrorOfACheckEndsTheTurnUnlessItFailsOpen(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(extension.Hook) extension.Hook{"closed": nil, "open": extension.FailOpen} {
		var read []string
		calls := 0
		check := says("c", "", errors.New("no connection"), &read)
		d, _ := guarded(t, &calls, guardrail.Config{Input: []guardrail.Check{check}}, wrap)
		_, err := d.RunText(t.Context(), "look")
		stopped, ok := errors.AsType[*session.HookTerminatedError](err)
		switch {
		case wrap != nil && err != nil:
			t.Errorf("%s: Run = %v", name, err)
		case wrap == nil && (!ok || stopped.Reason != "check c: no connection" || calls != 0):
			t.Errorf("%s: Run = %v after %d calls", name, err, calls)
		}
	}
}

func TestAResultIsCheckedWithItsStructure(t *testing.T) {
	t.Parallel()
	r := content.ToolResult{CallID: "c1", Output: []content.Part{{Kind: content.StructuredKind, Data: json.RawMessage(`{"bird":true}`)}}}
	g := newGuard(t, guardrail.Config{Results: []guardrail.Check{deny(t, "birds", `"bird":true`)}})
	a, err := g.OnEvent(t.Context(), extension.HookEvent{Point: extension.PostToolExecution, Call: &content.ToolCall{ID: "c1"}, Result: &r})
	if err != nil || a.Kind != extension.Terminate {
		t.Errorf("OnEvent = %+v, %v", a, err)
	}
}

package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

// fragile is a hook and a source of tools that panics on demand.
type fragile struct{ broken *atomic.Bool }

func (fragile) Name() string { return "fragile" }

func (f fragile) Points() []extension.Point {
	if f.broken.Load() {
		panic("broken points")
	}
	return []extension.Point{extension.PostLlmCall}
}

func (fragile) OnEvent(context.Context, extension.HookEvent) (extension.Action, error) {
	return extension.Action{}, nil
}

func (f fragile) Tools(context.Context) ([]tool.Tool, error) {
	if f.broken.Load() {
		panic("broken source")
	}
	return nil, nil
}

func TestAPanicEndsOnlyItsSession(t *testing.T) {
	t.Parallel()
	broken := fragile{new(atomic.Bool)}
	for during, c := range map[string]agent.Config{
		"submit_input":                     {Model: replies(modeltest.Text("ok")), Tools: []tool.Source{broken}},
		"hooks/turn-1/r1/post_llm_call//0": {Model: replies(modeltest.Text("ok")), Hooks: []extension.Hook{broken}},
	} {
		broken.broken.Store(false)
		a, err := agent.New(c)
		if err != nil {
			t.Fatal(err)
		}
		bad, err := a.Start(t.Context(), agent.SessionConfig{ID: "bad"})
		if err != nil {
			t.Fatal(err)
		}
		good, err := a.Start(t.Context(), agent.SessionConfig{ID: "good"})
		if err != nil {
			t.Fatal(err)
		}
		broken.broken.Store(true)
		for range 2 {
			_, err = bad.RunText(t.Context(), "go")
			p, ok := errors.AsType[*engine.PanicError](err)
			if !ok || p.Session != "bad" || p.Seq == 0 || p.During != during || !strings.Contains(string(p.Stack), "panic_test.go") {
				t.Errorf("%s: RunText = %v", during, err)
			}
		}
		broken.broken.Store(false)
		if res, err := good.RunText(t.Context(), "go"); err != nil || res.Response == "" {
			t.Errorf("%s: another session: %+v, %v", during, res, err)
		}
	}
}

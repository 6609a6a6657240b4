package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func TestRoutesOfASessionCountBeforeTheTools(t *testing.T) {
	t.Parallel()
	slow, err := tool.Func("slow", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewRegistry("r", slow)
	if err != nil {
		t.Fatal(err)
	}
	routes := []events.RouteRule{{Tool: "s*", Route: content.Background}}
	a, err := agent.New(agent.Config{
		Model: replies(modeltest.Calls(content.ToolCall{ID: "c1", Name: "slow"}), modeltest.Text("ok")),
		Tools: []tool.Source{tools}, Routes: routes, TaskManager: task.Async(task.AsyncConfig{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close(context.WithoutCancel(t.Context())) }()
	if res, err := d.RunText(t.Context(), "go"); err != nil || res.Response != "ok" {
		t.Errorf("RunText = %+v, %v", res, err)
	}
	for name, c := range map[string]agent.Config{
		"bad":    {Routes: []events.RouteRule{{Tool: "*", Route: "sideways"}}, TaskManager: task.Async(task.AsyncConfig{})},
		"simple": {Routes: routes},
	} {
		c.Model = replies(modeltest.Text(""))
		_, err := agent.New(c)
		if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "Routes" {
			t.Errorf("%s: New = %v", name, err)
		}
	}
}

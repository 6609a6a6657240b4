package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// lasting is a tool with a limit of ten seconds that ignores its context.
func lasting(t *testing.T, took time.Duration, more ...tool.Option) tool.Source {
	t.Helper()
	f, err := tool.Func("lasting", "Takes its time.", func(context.Context, struct{}) (string, error) {
		<-time.After(took)
		return "done after all", nil
	}, append(more, tool.WithSpec(func(s *tool.Spec) { s.Timeout = 10 * time.Second }))...)
	if err != nil {
		t.Fatal(err)
	}
	return registry(t, f)
}

func TestACallThatEndsWithinItsGraceCounts(t *testing.T) {
	for took, want := range map[time.Duration]string{14 * time.Second: "done after all", time.Minute: "Tool timed out after 10s"} {
		synctest.Test(t, func(t *testing.T) {
			d := start(t, agent.Config{
				Model: replies(modeltest.Calls(call("c1", "lasting", `{}`))), Tools: []tool.Source{lasting(t, took)},
				Input: []content.Item{content.UserText("go")},
			})
			began := time.Now()
			res := step[*session.AfterToolResult](t, d).Results[0]
			if res.Text() != want || time.Since(began) > 15*time.Second {
				t.Errorf("a call of %s: %q after %s", took, res.Text(), time.Since(began))
			}
			<-time.After(time.Minute) // what was abandoned ends too
		})
	}
}

// Waiting for an exclusive tool counts toward the timeout.
func TestATimeoutStartsWithTheDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := agent.New(agent.Config{
			Policy: permission.AllowAll(),
			Model:  replies(modeltest.Calls(call("c1", "lasting", `{}`))), Input: []content.Item{content.UserText("go")},
			Tools: []tool.Source{lasting(t, 9*time.Second, tool.WithSpec(func(s *tool.Spec) { s.Exclusive = true }))},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		results := make(chan string)
		for _, s := range []content.SessionID{"s1", "s2"} {
			d, err := a.Start(t.Context(), agent.SessionConfig{ID: s})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.Close(context.WithoutCancel(t.Context())) }()
			go func() { results <- step[*session.AfterToolResult](t, d).Results[0].Text() }()
		}
		began := time.Now()
		for range 2 {
			got[<-results]++
		}
		if got["done after all"] != 1 || got["Tool timed out after 10s"] != 1 || time.Since(began) > 16*time.Second {
			t.Errorf("results after %s: %v", time.Since(began), got)
		}
		<-time.After(time.Minute)
	})
}

package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// child is the session of the first call of session s.
const child content.SessionID = "s-t1-r1-c1"

const delegating = `
replies:
  - calls: [{name: helper, input: {prompt: help}}]
  - text: "{{(index .Results 0).Text}}"
`

// delegation is a deployment with workers that offer a sub-agent, and a tool for it.
type delegation struct {
	*world
	script string
	change func(*events.Config)
	opts   []tool.Option
	echoes int
	traced traces.From // what the last echo got
}

func newDelegation(t *testing.T, script string) *delegation {
	t.Helper()
	return &delegation{world: newWorld(t), script: script}
}

// tools are what a worker with a client has.
func (s *delegation) tools(c *client.Client) []tool.Tool {
	s.T.Helper()
	o := client.Options{Config: events.Config{Model: "scripted:child", ModelData: []byte(s.script)}}
	if s.change != nil {
		s.change(&o.Config)
	}
	helper, err := c.Tool("helper", "Helps.", o, s.opts...)
	if err != nil {
		s.T.Fatal(err)
	}
	echo, err := tool.Func("echo", "Echoes.", func(ctx context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		s.echoes++
		s.traced = traces.FromContext(ctx)
		return in.Text, nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return []tool.Tool{helper, echo}
}

// work runs a worker. The first comes before the node, which knows its tools then.
func (s *delegation) work(name string) *turnlogtest.Process {
	s.T.Helper()
	cfg := worker.Config{Logger: zaptest.NewLogger(s.T), DrainTimeout: time.Second}
	return s.Worker(name, cfg, func(nc *nats.Conn) []tool.Tool {
		c, err := client.Open(nc, "", client.WithLogger(zaptest.NewLogger(s.T)))
		if err != nil {
			s.T.Fatal(err)
		}
		return s.tools(c)
	})
}

// begin starts the calling session with a turn.
func (s *delegation) begin() *session.Session {
	s.T.Helper()
	x := s.start("s", delegating, false, nil)
	if err := x.Send(s.Ctx, "", content.UserText("go")); err != nil {
		s.T.Fatal(err)
	}
	return x
}

// result is the result of the calling session's only call.
func (s *delegation) result() events.ToolResultReceived {
	s.T.Helper()
	all := turnlogtest.Facts[events.ToolResultReceived](s.Deployment, "s")
	if len(all) != 1 {
		s.T.Fatalf("%d results, want one", len(all))
	}
	return all[0]
}

// ended waits for the end of the sub-agent's turn and returns its finish reason.
func (s *delegation) ended() content.FinishReason {
	s.T.Helper()
	s.Until(child, events.KindTurnFinished)
	all := turnlogtest.Facts[events.TurnFinished](s.Deployment, child)
	if len(all) != 1 {
		s.T.Fatalf("%d turns ended, want one", len(all))
	}
	return all[0].FinishReason
}

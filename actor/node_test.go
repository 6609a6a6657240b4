package actor_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

const script = `
replies:
  - text: let me see
    calls:
      - name: echo
        input: {text: "hi"}
  - text: "it said {{(index .Results 0).Text}}"
    repeat: true
`

func TestASessionEndToEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv, err := embedded.Start(ctx, embedded.WithLogger(zaptest.NewLogger(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(cell).Provision(ctx, admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	if err := cell.Catalog().Advertise(ctx, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "echo"}}}); err != nil {
		t.Fatal(err)
	}
	queue, err := cell.Queue(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := queue.Claim(ctx)
			if err != nil {
				return
			}
			x := c.Task()
			_ = c.Report(ctx, task.Report{
				Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
				Outcome: tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, string(x.Input))},
			})
			_ = c.Done(ctx)
		}
	}()
	node, err := actor.NewNode(cell, actor.Config{Policy: permission.AllowAll(), Logger: zaptest.NewLogger(t), Idle: 100 * time.Millisecond, Models: func(name string, data []byte) (model.Model, error) {
		return scripted.Parse(name, data)
	}})
	if err != nil {
		t.Fatal(err)
	}
	nodeCtx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- node.Run(nodeCtx) }()
	<-node.Ready()
	c, err := client.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s, err := c.Start(ctx, client.Options{ID: "s1", Config: events.Config{Model: "scripted:x", ModelData: []byte(script)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("started", time.Since(began))
	defer func() { _ = s.Close(t.Context()) }()
	if err := s.Send(ctx, "", content.UserText("say hi")); err != nil {
		t.Fatal(err)
	}
	step, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(began))
	fin, ok := step.(*session.Finished)
	if !ok {
		t.Fatalf("step = %T", step)
	}
	if fin.Result.Text() != `it said {"text":"hi"}` {
		t.Fatalf("text = %q", fin.Result.Text())
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

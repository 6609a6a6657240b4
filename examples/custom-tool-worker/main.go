// Command custom-tool-worker is a whole deployment in one process: a NATS server, a
// node, a worker with a tool of your own, and a client that starts a session.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

const script = `
replies:
  - calls: [{name: word_count, input: {text: "{{.Prompt}}"}}]
  - text: "That were {{(index .Results 0).Text}} words."
`

const queue = "words"

// errDone ends what serves once the client has its answer.
var errDone = errors.New("done")

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	srv, err := embedded.Start(ctx)
	if err != nil {
		return err
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		return err
	}
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		return err
	}
	if err := cell.Provision(ctx, jetstream.Config{Memory: true, Queues: []jetstream.QueueConfig{{Name: queue}}}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if err := startWorker(ctx, group, cell); err != nil {
		return err
	}
	node, err := actor.NewNode(cell, actor.Config{Models: func(name string, data []byte) (model.Model, error) {
		return scripted.Parse(name, data)
	}})
	if err != nil {
		return err
	}
	group.Go(func() error { return node.Run(ctx) })
	group.Go(func() error {
		if err := ask(ctx, out, nc); err != nil {
			return err
		}
		return errDone
	})
	if err := group.Wait(); !errors.Is(err, errDone) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// startWorker offers the tool, and then runs its calls. The same tool would run in
// process with package agent.
func startWorker(ctx context.Context, group *errgroup.Group, cell *jetstream.Cell) error {
	count, err := tool.Func("word_count", "Counts words.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (int, error) {
		words := 0
		for i, c := range in.Text {
			if c != ' ' && (i == 0 || in.Text[i-1] == ' ') {
				words++
			}
		}
		return words, nil
	}, tool.ReadOnly())
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("words", count)
	if err != nil {
		return err
	}
	q, err := cell.Queue(ctx, queue)
	if err != nil {
		return err
	}
	shelf := &offers{catalog: cell.Catalog(), made: make(chan struct{})}
	w, err := worker.New(worker.Config{Queue: q, Tools: []tool.Source{tools}, Offers: shelf, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	group.Go(func() error { return w.Run(ctx) })
	select {
	case <-shelf.made:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask is the client: it may run anywhere that reaches the server.
func ask(ctx context.Context, out *log.Logger, nc *nats.Conn) error {
	c, err := client.Open(nc, "")
	if err != nil {
		return err
	}
	s, err := c.Start(ctx, client.Options{ID: "counting", Config: events.Config{Model: "scripted:count", ModelData: []byte(script)}})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		step, err := s.Next(ctx)
		if err != nil {
			return err
		}
		switch step := step.(type) {
		case *agent.AwaitingInput:
			if err := step.Submit(ctx, content.UserText("nothing that matters lives only in memory")); err != nil {
				return err
			}
		case *agent.ApprovalRequest, *agent.AfterToolResult:
		case *agent.Finished:
			out.Println(step.Result.Text())
			return nil
		}
	}
}

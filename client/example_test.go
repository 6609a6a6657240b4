package client_test

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/session"
)

// A whole deployment in one process: a server, a node, and a client that drives a
// session by its steps.
func Example() {
	if err := greet(); err != nil {
		fmt.Println(err)
	}
	// Output: Hello, world!
}

func greet() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
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
	if err := admin.Of(cell).Provision(ctx, admin.Config{Memory: true}); err != nil {
		return err
	}
	node, err := actor.NewNode(cell, actor.Config{Models: func(name string, data []byte) (model.Model, error) {
		return scripted.Parse(name, data)
	}})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()

	c, err := client.Open(nc, "")
	if err != nil {
		return err
	}
	s, err := c.Start(ctx, client.Options{ID: "greeting", Config: events.Config{
		Model: "scripted:greet", ModelData: []byte("replies:\n  - text: 'Hello, {{.Prompt}}!'\n"),
	}})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }()
	for greeted := false; !greeted; {
		step, err := s.Next(ctx)
		if err != nil {
			return err
		}
		switch step := step.(type) {
		case *session.AwaitingInput:
			if err := step.Submit(ctx, content.UserText("world")); err != nil {
				return err
			}
		case *session.ApprovalRequest, *session.AfterToolResult:
		case *session.Finished:
			fmt.Println(step.Result.Text())
			greeted = true
		}
	}
	stop()
	return <-ended
}

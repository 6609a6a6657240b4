package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

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
	"github.com/turnlog/turnlog/tool"
)

// errDone ends the deployment once the client has its answer.
var errDone = errors.New("done")

// deployed calls the tool from a session of a deployment. Its node knows only what the worker
// offers.
func deployed(ctx context.Context, tools tool.Source) (answer string, err error) {
	srv, err := embedded.Start(ctx)
	if err != nil {
		return "", err
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		return "", err
	}
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		return "", err
	}
	if err := admin.Of(cell).Provision(ctx, admin.Config{Memory: true}); err != nil {
		return "", err
	}
	node, err := actor.NewNode(cell, actor.Config{Models: func(name string, data []byte) (model.Model, error) {
		return scripted.Parse(name, data)
	}})
	if err != nil {
		return "", err
	}
	group, ctx := errgroup.WithContext(ctx)
	offers := cell.Offers("words-1", "words")
	group.Go(func() error { return work(ctx, cell, offers, tools) })
	group.Go(func() error {
		select {
		case <-offers.Made(): // from now on a node that starts knows the tool
			return node.Run(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	group.Go(func() error {
		if answer, err = ask(ctx, nc); err != nil {
			return err
		}
		return errDone
	})
	if err := group.Wait(); !errors.Is(err, errDone) {
		return "", fmt.Errorf("serve: %w", err)
	}
	return answer, nil
}

// ask is the client. It may run anywhere that reaches the server.
func ask(ctx context.Context, nc *nats.Conn) (string, error) {
	c, err := client.Open(nc, "")
	if err != nil {
		return "", err
	}
	s, err := c.Start(ctx, client.Options{ID: "counting", Config: events.Config{Model: "scripted:count", ModelData: []byte(script)}})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	for {
		step, err := s.Next(ctx)
		if err != nil {
			return "", err
		}
		switch step := step.(type) {
		case *session.AwaitingInput:
			if err := step.Submit(ctx, content.UserText(prompt)); err != nil {
				return "", err
			}
		case *session.ApprovalRequest, *session.AfterToolResult:
		case *session.Finished:
			return step.Result.Text(), nil
		}
	}
}

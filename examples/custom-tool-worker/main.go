// Command custom-tool-worker runs a tool of its own (tool.go) in two ways that look the same
// to a model: in the process of an agent, and on a worker (worker.go) of a deployment, here a
// NATS server and a node in this process.
//
// With the name of a context of the nats command it runs only that worker, until it is
// interrupted. "turnlog dev" writes the context turnlog-4222.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/synadia-io/orbit.go/natscontext"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
)

// script is the model: it calls the tool and repeats the result.
const script = `
replies:
  - calls: [{name: word_count, input: {text: "{{.Prompt}}"}}]
  - text: "That was {{(index .Results 0).Text}} words."
`

const prompt = "nothing that matters lives only in memory"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], log.New(os.Stdout, "", 0))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out *log.Logger) error {
	count, err := wordCount()
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("words", count)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return workFor(ctx, args[0], tools, out)
	}
	here, err := inProcess(ctx, tools)
	if err != nil {
		return fmt.Errorf("in this process: %w", err)
	}
	out.Println("in this process:", here)
	there, err := deployed(ctx, tools)
	if err != nil {
		return fmt.Errorf("on a worker: %w", err)
	}
	out.Println("on a worker:", there)
	return nil
}

// workFor runs the worker alone.
func workFor(ctx context.Context, name string, tools tool.Source, out *log.Logger) error {
	nc, _, err := natscontext.Connect(name)
	if err != nil {
		return fmt.Errorf("connect with the context %s: %w", name, err)
	}
	defer nc.Close()
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	offers := cell.Offers("words-1", "words")
	group.Go(func() error { return work(ctx, cell, offers, tools) })
	select {
	case <-offers.Made():
		out.Println("word_count is on offer, until Ctrl-C")
	case <-ctx.Done():
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the worker ended: %w", err)
	}
	return nil
}

// inProcess calls the tool from an agent in this process.
func inProcess(ctx context.Context, tools tool.Source) (string, error) {
	m, err := scripted.Parse("count", []byte(script))
	if err != nil {
		return "", err
	}
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{tools}})
	if err != nil {
		return "", err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return "", err
	}
	r, err := d.RunText(ctx, prompt)
	if err != nil {
		return "", err
	}
	return r.Response, nil
}

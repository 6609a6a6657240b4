package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
)

// flags are what the command line says.
type flags struct {
	name     string
	capacity int
	idle     time.Duration
	http     *string

	deployment *cli.Deployment
	log        *cli.Log
}

func newRootCommand(stderr io.Writer, getenv func(string) string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "driver-node",
		Short: "Drive the sessions of a deployment",
		Long: `Drives sessions until SIGTERM or an interrupt: it takes what wakes, runs the agent loop,
records it, and puts tool calls on the workers' queues. Any number of nodes share a
deployment. Told to stop, it hands its sessions over to the others and exits with 0.`,
		Example: `  driver-node --server nats://127.0.0.1:4222
  driver-node --context production --namespace team-a --capacity 5000
  driver-node --name node-1 --http 127.0.0.1:8080 --log-format json`,
	}
	cmd.SetErr(stderr)
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", "", "`name` of the node in journals, letters, digits, '-' and '_'; default: a new one")
	fs.IntVar(&f.capacity, "capacity", 1000, "`sessions` at a time")
	fs.DurationVar(&f.idle, "idle", 2*time.Second, "let a session go after so much `time` with nothing to do")
	f.http = ops.AddressFlag(cmd)
	f.deployment = cli.NewDeployment(cmd, getenv)
	f.deployment.Provisions(cmd)
	f.log = cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		return run(cmd.Context(), f, f.log.Logger(stderr, getenv))
	}
	return cmd
}

func (f flags) validate() error {
	switch {
	case f.capacity < 1:
		return cli.Usage("--capacity %d: use 1 or more", f.capacity)
	case f.idle <= 0:
		return cli.Usage("--idle %v: use a positive time", f.idle)
	}
	return nil
}

// run drives sessions until ctx ends, which is how it is meant to end.
func run(ctx context.Context, f flags, log *zap.Logger) error {
	cell, err := f.deployment.Open(ctx, "driver-node", log)
	if err != nil {
		return err
	}
	defer cell.Close()
	metrics := newMetrics()
	node, err := actor.NewNode(cell.Cell, actor.Config{
		Models: openModel, Name: f.name, Capacity: f.capacity, Idle: f.idle, Logger: log, Metrics: metrics,
	})
	if err != nil {
		return cli.Usage("%w", err)
	}
	registry := ops.NewRegistry()
	metrics.register(registry, node)
	ready := func() error { return readiness(node, cell) }
	server, err := ops.Listen(ctx, *f.http, registry, ready, log)
	if err != nil {
		return err
	}
	log.Info("configuration",
		zap.String("server", cell.Conn.ConnectedUrlRedacted()), zap.String("namespace", cell.Namespace()),
		zap.String("name", node.Name()), zap.Int("capacity", f.capacity), zap.Duration("idle", f.idle),
		zap.String("http", server.Address()), zap.String("version", cli.Version()))

	ctx, stop := cell.Lasting(ctx)
	defer stop()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(gctx) })
	group.Go(func() error { return node.Run(gctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if _, ok := errors.AsType[*cli.Interrupted](context.Cause(ctx)); !ok {
		return context.Cause(ctx)
	}
	return nil
}

// readiness says why the node takes no sessions, or nil.
func readiness(node *actor.Node, cell *cli.Cell) error {
	if !cell.Conn.IsConnected() {
		return fmt.Errorf("not connected to NATS: %v", cell.Conn.Status())
	}
	select {
	case <-node.Ready():
		return nil
	default:
		return errors.New("starting")
	}
}

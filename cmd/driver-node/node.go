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
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model/registry"
)

// flags are what the command line says.
type flags struct {
	name     string
	capacity int
	idle     time.Duration
	agents   string
	hooks    bool
	http     *string

	deployment *cli.Deployment
	durability *cli.Durability
	log        *cli.Log
}

func newRootCommand(stderr io.Writer, getenv func(string) string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "driver-node",
		Short: "Drive the sessions of a deployment",
		Long: `Drives sessions until SIGTERM or an interrupt: it takes what wakes, runs the agent loop,
records it, and puts tool calls on the workers' queues. Any number of nodes share a
deployment. Told to stop, it hands its sessions over to the others and exits with 0.

Models are called with the keys of the node's environment, such as OPENAI_API_KEY; "turnlog
models" lists the variables. A session whose model's key the node lacks goes to another node.

A session that names an agent begins with the file of that agent in the folder of --agents, else
with what "turnlog agents publish" put into the deployment last. It keeps that version, on
whatever node it is driven. Hooks of agents are commands that nodes run: those of files in the
folder, on every node of the deployment, and those of agents that somebody published or sent only
with --agent-hooks. Give all nodes of a deployment the same.

With --profile the node does not start on a deployment that is weaker: "dev" is one copy on disk,
"standard" three, "audit" three that are synced before a write is acknowledged. When servers sync
is their own setting, which NATS does not tell its clients: see --monitor and --assume-sync.`,
		Example: `  driver-node --server nats://127.0.0.1:4222
  driver-node --context production --namespace team-a --capacity 5000
  driver-node --server nats://127.0.0.1:4222 --agents /etc/turnlog/agents
  driver-node --context production --profile standard
  driver-node --name node-1 --http 127.0.0.1:8080 --log-format json`,
	}
	cmd.SetErr(stderr)
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", "", "`name` of the node in journals, letters, digits, '-' and '_'; default: a new one")
	fs.IntVar(&f.capacity, "capacity", 1000, "`sessions` at a time")
	fs.DurationVar(&f.idle, "idle", 2*time.Second, "let a session go after so much `time` with nothing to do")
	fs.StringVar(&f.agents, "agents", "", "`folder` of agent files, which count before agents that are published; read whenever a session begins")
	_ = cmd.MarkFlagDirname("agents") // the flag is there
	cli.AgentHooksFlag(cmd, &f.hooks)
	f.http = ops.AddressFlag(cmd)
	f.deployment = cli.NewDeployment(cmd, getenv)
	f.deployment.Provisions(cmd)
	f.durability = cli.NewDurability(cmd, "durability `profile` without which the node does not start")
	f.log = cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		if err := f.deployment.Replicate(cmd, f.durability); err != nil {
			return err
		}
		return run(cmd.Context(), f, models(getenv), f.log.Logger(stderr, getenv))
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
	return f.checkAgents()
}

// run drives sessions until ctx ends, which is how it is meant to end.
func run(ctx context.Context, f flags, known *registry.Registry, log *zap.Logger) error {
	cell, err := f.deployment.Open(ctx, "driver-node", log)
	if err != nil {
		return err
	}
	defer cell.Close()
	if err := f.durability.Require(ctx, cell, log, admin.RoleDriver); err != nil {
		return err
	}
	metrics := newMetrics()
	node, err := actor.NewNode(cell.Cell, actor.Config{
		Models: known.OpenShared, Name: f.name, Capacity: f.capacity, Idle: f.idle, Logger: log, Metrics: metrics,
		Agents: f.host(cell.Cell, known),
	})
	if err != nil {
		return cli.Usage("%w", err)
	}
	gathered := ops.NewRegistry()
	metrics.register(gathered, node)
	server, err := ops.Listen(ctx, *f.http, gathered, func() error { return readiness(node, cell) }, log)
	if err != nil {
		return err
	}
	f.tellAgents(known, log)
	log.Info("configuration",
		zap.String("server", cell.Conn.ConnectedUrlRedacted()), zap.String("namespace", cell.Namespace()),
		zap.String("name", node.Name()), zap.Strings("models", ready(known)), zap.Int("capacity", f.capacity), zap.Duration("idle", f.idle),
		zap.String("agents", f.agents), zap.Bool("agent_hooks", f.hooks), zap.String("http", server.Address()), zap.String("version", cli.Version()))

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

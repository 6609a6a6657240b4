package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model/registry"
)

// flags are what the command line says.
type flags struct {
	name     string
	capacity int
	idle     time.Duration
	patience time.Duration
	agents   string
	hooks    bool
	scripted bool
	policy   string
	root     string
	tools    ownTools
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
		Long: `Drives sessions until SIGTERM or an interrupt: it claims sessions that wake, runs the agent loop,
records each step in the journal, and dispatches tool calls to the workers' queues. Any number of nodes
share a deployment. When a node stops, it hands its sessions over to the others and exits with 0.

The nodes decide which tool calls need approval, not the users who open sessions. --policy names a file
with the rules; without it, read-only calls run, and all others need approval. Sessions, agents and
turns can only restrict the rules further. Give all nodes of a deployment the same file.

With --tools the node runs tools itself, without a worker: a call takes two writes instead of four. The
node checks calls as a worker does. Give all nodes the same tools. A call that is running when its node is
killed counts as lost, as with a worker.

Models are called with the keys in the node's environment, such as OPENAI_API_KEY; "turnlog models"
lists the variables. If the node has no key for a session's model, another node takes the session.

A session that names an agent starts with the agent's file in the --agents folder, else with the newest
version from "turnlog agents publish". It keeps that version on every node. Hooks of agents are commands
that nodes run: those of agents in the folder always run, those of published or sent agents only with
--agent-hooks. Configure all nodes of a deployment alike.

With --sign-key the node signs each entry. With --keys-root it rejects entries, commands and results whose
signature is invalid, or missing although the directory of keys requires it.

With --profile the node does not start in a weaker deployment: "dev" is one copy on disk, "standard" three
copies, and "audit" three copies that are synced before a write is acknowledged. NATS clients cannot see
when servers sync: use --monitor or --assume-sync.`,
		Example: `  driver-node --server nats://127.0.0.1:4222
  driver-node --context production --namespace team-a --capacity 5000
  driver-node --server nats://127.0.0.1:4222 --agents /etc/turnlog/agents
  driver-node --context production --profile standard --policy /etc/turnlog/policy.yaml
  driver-node --server nats://127.0.0.1:4222 --tools fs --root /srv/project
  driver-node --context production --sign-key node-1.nk --keys-root "$(cat root.pub)"
  driver-node --name node-1 --http 127.0.0.1:8080 --log-format json`,
	}
	cmd.SetErr(stderr)
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", "", "`name` of the node in journals, of letters, digits, '-' and '_'; default: generated")
	fs.IntVar(&f.capacity, "capacity", 1000, "maximum `number` of sessions at a time")
	fs.DurationVar(&f.idle, "idle", 2*time.Second, "release a session after this `time` without work")
	fs.DurationVar(&f.patience, "worker-patience", time.Minute, "`time` that a call waits for a worker of its queue before it counts as lost")
	fs.StringVar(&f.agents, "agents", "", "`folder` of agent files, which take precedence over published agents; a file is read when a session starts")
	_ = cmd.MarkFlagDirname("agents") // the flag exists
	cli.AgentHooksFlag(cmd, &f.hooks)
	fs.BoolVar(&f.scripted, "scripted", true, "allow scripted models, whose scripts come with the session; turn this off in production")
	cli.PolicyFlag(cmd, &f.policy)
	fs.StringVar(&f.root, "keys-root", "", "public `key` of the root that signs the directory of keys, to reject invalid and missing signatures; default: signatures are not verified")
	f.tools.register(cmd)
	f.http = ops.AddressFlag(cmd)
	f.deployment = cli.NewDeployment(cmd, getenv)
	f.deployment.Provisions(cmd)
	f.deployment.Signs(cmd, "entries")
	f.durability = cli.NewDurability(cmd, "durability `profile` without which the node does not start")
	f.log = cli.NewLog(cmd, zapcore.InfoLevel)
	settings.Lasts(cmd)
	settings.Register(cmd, getenv)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		if err := f.deployment.Replicate(cmd, f.durability); err != nil {
			return err
		}
		log := f.log.Logger(stderr, getenv)
		tools, err := f.tools.start(cmd.Context(), getenv, log)
		if err != nil {
			return cli.Usage("%w", err)
		}
		defer tools.close()
		return run(cmd.Context(), f, tools, models(getenv), log)
	}
	return cmd
}

func (f flags) validate() error {
	switch {
	case f.capacity < 1:
		return cli.Usage("--capacity %d: use 1 or more", f.capacity)
	case f.idle <= 0:
		return cli.Usage("--idle %v: use a positive time", f.idle)
	case f.root != "" && keys.CheckRoot(f.root) != nil:
		return cli.Usage("--keys-root: %w", keys.CheckRoot(f.root))
	case f.patience <= 0:
		return cli.Usage("--worker-patience %v: use a positive time", f.patience)
	}
	if err := f.tools.check(); err != nil {
		return err
	}
	return f.checkAgents()
}

// run drives sessions until ctx ends, its regular end.
func run(ctx context.Context, f flags, tools *startedTools, known *registry.Registry, log *zap.Logger) error {
	policy, err := toolset.Policy(f.policy)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if _, err := known.Prices(); err != nil {
		return cli.Usage("%w", err)
	}
	cell, err := f.deployment.Open(ctx, "driver-node", log)
	if err != nil {
		return err
	}
	defer cell.Close()
	if err := f.durability.Require(ctx, cell, log, admin.RoleDriver); err != nil {
		return err
	}
	if !f.scripted {
		known = known.Without("scripted", "this node runs no scripts (--scripted=false): use another model")
	}
	worker, err := tools.worker(cell.Cell, log)
	if err != nil {
		return err
	}
	registry := ops.NewRegistry()
	node, err := actor.NewNode(cell.Cell, actor.Config{
		Models: known.OpenShared, Name: f.name, Capacity: f.capacity, Idle: f.idle, WorkerPatience: f.patience, Logger: log, Metrics: newMetrics(registry),
		Agents: f.host(cell.Cell, known), Policy: &policy, Scripted: f.scripted, Local: tools.queue, Drain: f.tools.drain,
		Key: cell.Key(), Root: f.root,
	})
	if err != nil {
		return cli.Usage("%w", err)
	}
	lister, err := client.Open(cell.Conn, cell.Namespace(), client.WithLogger(log), client.WithSealKeys(cell.SealRing()))
	if err != nil {
		return err
	}
	registerSessions(registry, node)
	server, err := ops.Listen(ctx, *f.http, registry, cell.Ready(func() error { return readiness(node) }), log)
	if err != nil {
		return err
	}
	f.logAgents(known, log)
	log.Info("configuration", append(f.tools.Fields(),
		zap.String("server", cell.Conn.ConnectedUrlRedacted()), zap.String("namespace", cell.Namespace()),
		zap.String("name", node.Name()), zap.Strings("models", ready(known)), zap.Int("capacity", f.capacity), zap.Duration("idle", f.idle), zap.Duration("worker_patience", f.patience),
		zap.Bool("allow_commands", f.tools.commands), zap.String("agents", f.agents), zap.Bool("agent_hooks", f.hooks), zap.String("policy", policy.Name), zap.String("policy_digest", policy.Digest()),
		zap.String("sign_key", cell.Key().ID()), zap.String("keys_root", f.root),
		zap.String("http", server.Address()), zap.String("version", cli.Version()))...)

	return cell.Work(ctx, server.Run, func(ctx context.Context) error {
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return worker(ctx) })
		both.Go(func() error { return node.Run(ctx) })
		both.Go(func() error {
			report.Keep(ctx, lister, func(err error) { log.Warn("list of sessions not updated", zap.Error(err)) })
			return nil
		})
		return both.Wait()
	})
}

// readiness returns why the node takes no sessions, or nil.
func readiness(node *actor.Node) error {
	select {
	case <-node.Ready():
		return nil
	default:
		return errors.New("starting")
	}
}

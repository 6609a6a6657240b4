package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/signers"
	"github.com/turnlog/turnlog/tool/natsservice"
	"github.com/turnlog/turnlog/worker"
)

func newRootCommand(stderr io.Writer, getenv func(string) string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "tool-worker",
		Short: "Run the tools of a deployment",
		Long: `Runs tools until SIGTERM or an interrupt: it offers them to the models of a deployment, takes calls
from a queue, and reports the results. Any number of workers share a queue. When a worker stops, it
lets running calls finish, returns those that another worker can run, and exits with 0.

Sets of tools:` + toolset.About() + `

The worker checks each call just before it runs, with the real targets of its paths. If a call is
denied, the model sees that. If it needs approval, the session asks for it, and the call runs once it is
approved. The flags for commands filter the model's command line; they are not a sandbox. With one of
these flags, commands that start other programs or pass code to an interpreter, such as scripts, also
need approval. Verifiers of tasks are scripts and cannot wait for approval, so they fail on a worker
with such a flag. The flags for paths do not limit what an allowed command does to files.

The worker connects MCP servers, HTTP tools and NATS services in the background, and offers their tools
while they are connected. Failed connections are logged and retried.

An HTTP tool describes itself at its URL, with a manifest or an OpenAPI document; a NATS service in the
metadata of its endpoints. The worker sends calls there, with their idempotency keys, and repeats a
call only if its declared effects allow that. See docs/tools.md for the requests and responses.`,
		Example: `  tool-worker --server nats://127.0.0.1:4222 --root /srv/project
  tool-worker --tools fs,shell --root . --allow-write --protect .git --allow-command go --deny-command rm
  tool-worker --mcp 'notes=npx -y @acme/notes' --mcp-env notes=NOTES_KEY --mcp wiki=https://wiki.test/mcp --mcp-token wiki=file:/run/wiki-token
  tool-worker --tools none --http-tool words=http://127.0.0.1:8000/words --nats-service billing --queue office
  tool-worker --context production --queue gpu --slots 2 --http 127.0.0.1:8080 --log-format json`,
	}
	cmd.SetErr(stderr)
	f.register(cmd)
	f.deployment = cli.NewDeployment(cmd, getenv)
	f.deployment.Provisions(cmd)
	f.deployment.Signs(cmd, "results, and commands to sub-agents")
	f.log = cli.NewLog(cmd, zapcore.InfoLevel)
	settings.Lasts(cmd)
	settings.Register(cmd, getenv)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.complete(); err != nil {
			return err
		}
		agents, err := loadAgents(cmd.Context(), f.agents)
		if err != nil {
			return cli.Usage("--agents: %w", err)
		}
		log := f.log.Logger(stderr, getenv)
		tools, err := f.tools.Start(cmd.Context(), agents, cli.Version(), getenv, log)
		if err != nil {
			return cli.Usage("%w", err)
		}
		defer tools.Close()
		return run(cmd.Context(), f, rolesFor(agents), tools, log)
	}
	return cmd
}

// run works until ctx ends, its regular end.
func run(ctx context.Context, f flags, roles []admin.Role, tools *toolset.Tools, log *zap.Logger) error {
	cell, err := f.deployment.Open(ctx, "tool-worker", log, roles...)
	if err != nil {
		return err
	}
	defer cell.Close()
	directory, err := f.directory(ctx, cell)
	if err != nil {
		return err
	}
	queue, err := openQueue(ctx, cell, f.queue)
	if err != nil {
		return err
	}
	caller, err := client.Open(cell.Conn, cell.Namespace(), client.WithLogger(log), client.WithName("tool-worker"), client.WithKey(cell.Key()), client.WithSealKeys(cell.SealRing()))
	if err != nil {
		return err
	}
	cfg, err := tools.Worker(cell.Cell, caller, nil, log)
	if err != nil {
		return err
	}
	services, err := natsservice.Open(ctx, natsservice.Config{Conn: cell.Conn, Services: f.services, Reserved: cell.Namespace(), Logger: log})
	if err != nil {
		return cli.Usage("--nats-service: %w", err)
	}
	defer services.Close()
	cfg.Tools = append(cfg.Tools, services.Sources()...)
	registry := ops.NewRegistry()
	cfg.Queue, cfg.Offers, cfg.Observer = queue, cell.Offers(f.name, f.queue), newMetrics(registry)
	cfg.Slots, cfg.DefaultTimeout, cfg.DrainTimeout = f.slots, f.timeout, f.drain
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	server, err := ops.Listen(ctx, *f.http, registry, cell.Ready(w.Ready), log)
	if err != nil {
		return err
	}
	f.logConfig(log, cell, server)

	return cell.Work(ctx, server.Run, func(ctx context.Context) error {
		group, following := errgroup.WithContext(ctx)
		following, stop := context.WithCancel(following)
		if directory != nil {
			group.Go(func() error {
				_ = directory.Follow(following, func(err error) error {
					if err != nil {
						log.Warn("directory of keys not read", zap.Error(err))
					}
					return nil
				})
				return nil
			})
		}
		group.Go(func() error {
			defer stop()
			return w.Run(ctx)
		})
		return group.Wait()
	})
}

// directory returns the directory of keys with which the worker checks what drivers send, and makes the cell check it.
// If it is nil, nothing is checked.
func (f flags) directory(ctx context.Context, cell *cli.Cell) (*signers.Directory, error) {
	if f.root == "" {
		return nil, nil //nolint:nilnil // nothing is checked
	}
	var d *signers.Directory
	err := cell.Permitted(ctx, func(ctx context.Context) (err error) {
		d, err = signers.Open(ctx, cell.Cell, f.root)
		return err
	})
	if err == nil {
		cell.Cell = cell.Checking(d.Newest)
	}
	return d, err
}

// openQueue returns the queue, and creates it if it is missing.
func openQueue(ctx context.Context, cell *cli.Cell, name string) (*jetstream.Queue, error) {
	var queue *jetstream.Queue
	open := func(ctx context.Context) (err error) {
		queue, err = cell.Queue(ctx, name)
		return err
	}
	err := cell.Permitted(ctx, open)
	if !errors.Is(err, jetstream.ErrNotProvisioned) {
		return queue, err
	}
	create := func(ctx context.Context) error {
		return admin.Of(cell.Cell).EnsureQueue(ctx, admin.QueueConfig{Name: name})
	}
	if err := cell.Permitted(ctx, create); err != nil {
		return nil, fmt.Errorf("%w (the queue is missing, and \"turnlog provision --queue %s\" creates it)", err, name)
	}
	return queue, open(ctx)
}

// logConfig logs the effective configuration.
func (f flags) logConfig(log *zap.Logger, cell *cli.Cell, server *ops.Server) {
	log.Info("configuration", append(f.tools.Fields(),
		zap.String("server", cell.Conn.ConnectedUrlRedacted()), zap.String("namespace", cell.Namespace()),
		zap.Strings("nats_services", f.services), zap.String("name", f.name), zap.String("queue", f.queue), zap.Int("slots", f.slots),
		zap.Duration("timeout", f.timeout), zap.Duration("drain", f.drain),
		zap.String("sign_key", cell.Key().ID()), zap.String("keys_root", f.root), zap.String("http", server.Address()), zap.String("version", cli.Version()))...)
	for _, path := range f.tools.Absent() {
		log.Warn("path is not protected", zap.String("path", path))
	}
}

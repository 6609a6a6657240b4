package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// defaultQueue is the queue of workers that name none.
const defaultQueue = "default"

// local is a whole deployment in this process.
type local struct {
	server    []embedded.Option
	store     string // "": in memory
	namespace string
	models    func(name string, data []byte) (model.Model, error)
	model     chosen // of the agents that name none
	agent     agentOf
	tools     toolset.Flags
	drain     time.Duration // how long running calls may go on at the end
	log       *zap.Logger
	app       *app // who is told of MCP servers that are not there
}

// within runs do beside a server, a node and a worker, and takes them down when it
// returns. The context of do ends early if one of them fails.
func (l local) within(ctx context.Context, do func(context.Context, *embedded.Server, *cli.Cell) error) error {
	if err := l.agent.prepare(ctx, &l); err != nil {
		return err
	}
	sources, err := l.tools.Open() //nolint:contextcheck // what it opens lives as long as this process
	if err != nil {
		return usageError("%w", err)
	}
	servers, err := l.tools.Connect(ctx, cli.Version(), l.app.getenv, l.log)
	if err != nil {
		return usageError("%w", err)
	}
	defer servers.Close()
	srv, d, err := l.serve(ctx)
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := l.app.awaitServers(ctx, servers); err != nil {
		return err
	}
	if note := l.tools.SandboxNote(); note != "" {
		_, _ = fmt.Fprintln(l.app.term.err, note)
	}
	own, err := l.agent.sources(ctx, l, d)
	if err != nil {
		return err
	}
	sources, err = l.tools.Keep(slices.Concat(sources, servers.Sources(), own), d.Blobs())
	if err != nil {
		return err
	}
	cfg := actor.Config{Models: l.models, Logger: l.log, Agents: l.agent.host(l, d.Cell), Effects: l.agent.effects(l.tools.Root)}
	return l.host(ctx, d, cfg, sources, func(ctx context.Context) error { return do(ctx, srv, d) })
}

// errDone ends a deployment whose work is done.
var errDone = errors.New("done")

// host runs do beside a node and a worker on a cell.
func (l local) host(ctx context.Context, d *cli.Cell, cfg actor.Config, sources []tool.Source, do func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := l.work(ctx, group, d, cfg, sources); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return err
		}
		return errDone
	})
	if err := group.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// serve starts the server and provisions the cell.
func (l local) serve(ctx context.Context) (*embedded.Server, *cli.Cell, error) {
	opts := append([]embedded.Option{embedded.WithLogger(l.log)}, l.server...)
	if l.store != "" {
		opts = append(opts, embedded.WithStore(l.store))
	}
	if err := embedded.Check(opts...); err != nil {
		return nil, nil, usageError("%w", err)
	}
	srv, err := embedded.Start(ctx, opts...)
	if err != nil {
		return nil, nil, err
	}
	d, err := provisionOn(ctx, srv, l.namespace, jetstream.QueueConfig{Name: defaultQueue})
	if err != nil {
		srv.Close()
		return nil, nil, err
	}
	return srv, d, nil
}

// work starts the worker and, once its tools are on offer, the node, so that the
// first model call sees them. It returns when sessions are taken.
func (l local) work(ctx context.Context, group *errgroup.Group, d *cli.Cell, cfg actor.Config, sources []tool.Source) error {
	queue, err := d.Queue(ctx, defaultQueue)
	if err != nil {
		return err
	}
	offers := d.Offers(ulid.Make().String(), defaultQueue)
	w, err := worker.New(worker.Config{
		Queue: queue, Tools: sources, Permissions: l.tools.Permissions(), Root: l.tools.Root, Logger: l.log, Offers: offers, DrainTimeout: l.drain,
		Progress: toolset.Progress(d.Live(), l.log),
	})
	if err != nil {
		return err
	}
	group.Go(func() error { return w.Run(ctx) })
	select {
	case <-offers.Made():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	node, err := actor.NewNode(d.Cell, cfg)
	if err != nil {
		return err
	}
	group.Go(func() error { return node.Run(ctx) })
	select {
	case <-node.Ready():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

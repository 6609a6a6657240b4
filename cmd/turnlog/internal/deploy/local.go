// Package deploy runs deployments and creates them: a NATS server, a driver node
// and a worker in this process, or the streams and permissions of one elsewhere.
//
// A deployment in this process has the same parts as any other, so sessions cannot tell
// the difference. [Local] owns all of them and stops them in reverse order when its work
// is done.
package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// DefaultQueue is the queue of workers that name none.
const DefaultQueue = "default"

// leaveTime is how long calls may still run after their turn has ended or was abandoned. It is
// short because nothing waits for them any more.
const leaveTime = time.Millisecond

// Local is a whole deployment in this process.
type Local struct {
	serverFlags

	app    *app.App
	models func(name string, data []byte) (model.Model, error)
	model  flags.Model // model of agents that name none
	agent  Agent
	tools  toolset.Flags
	policy permission.Deployment
	ring   seal.Ring     // opens sealed sessions
	drain  time.Duration // how long running calls may take at the end
	log    *zap.Logger
}

// ForSession returns a deployment in memory for one session, without a port.
func ForSession(a *app.App, namespace string, agent Agent, start flags.Start, tools toolset.Flags, log *zap.Logger) Local {
	return Local{
		app: a, serverFlags: serverFlags{namespace: namespace}, models: flags.Models(a).In(agent.Folder).Open,
		model: flags.Model{Name: start.Config.Model, Data: start.Config.ModelData}, agent: agent, tools: tools, drain: leaveTime, log: log,
		policy: start.Policy(),
	}
}

// In returns the deployment with its streams in a directory, which keeps them; "" is memory.
func (l Local) In(store string) Local {
	l.store = store
	return l
}

// Run runs do while the deployment exists. The context of do ends early if a part of it
// fails.
func (l Local) Run(ctx context.Context, do func(context.Context, *cli.Cell) error) error {
	return l.within(ctx, func(ctx context.Context, _ *embedded.Server, d *cli.Cell) error { return do(ctx, d) })
}

func (l Local) within(ctx context.Context, do func(context.Context, *embedded.Server, *cli.Cell) error) error {
	agents, err := l.agent.agents(ctx)
	if err != nil {
		return err
	}
	if d := l.agent.definition; d != nil && d.Verifier != nil {
		l.tools.RunVerifiers()
	}
	tools, err := l.tools.Start(ctx, agents, cli.Version(), l.app.Getenv, l.log)
	if err != nil {
		return cli.Usage("%w", err)
	}
	defer tools.Close()
	srv, stop, err := l.start(ctx, l.log)
	if err != nil {
		return err
	}
	defer stop()
	d, err := provisionOn(ctx, srv, l.namespace, nil, admin.QueueConfig{Name: DefaultQueue})
	if err != nil {
		return err
	}
	d.Cell = d.Sealing(l.ring)
	if err := l.app.AwaitServers(ctx, tools); err != nil {
		return err
	}
	if note := l.tools.SandboxNote(); note != "" {
		_, _ = fmt.Fprintln(l.app.Err, note)
	}
	for _, line := range l.tools.Absent() {
		l.app.Hint("%s", line)
	}
	caller, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(l.log), client.WithName("turnlog-agents"), client.WithSealKeys(d.SealRing()))
	if err != nil {
		return err
	}
	cfg, err := tools.Worker(d.Cell, caller, l.modelOf, l.log)
	if err != nil {
		return cli.Usage("%w", err)
	}
	cfg.DrainTimeout = l.drain
	workers, err := l.workers(ctx, d, cfg)
	if err != nil {
		return err
	}
	node, err := actor.NewNode(d.Cell, actor.Config{
		Models: l.models, Logger: l.log, Agents: l.agent.host(l, d.Cell), Policy: &l.policy, Effects: l.agent.effects(l.tools.Root),
		Local: workers.local, Drain: l.drain,
	})
	if err != nil {
		return err
	}
	keep := func(ctx context.Context) {
		report.Keep(ctx, caller, func(err error) { l.log.Warn("list of sessions not updated", zap.Error(err)) })
	}
	return workers.serve(ctx, node, keep, func(ctx context.Context) error { return do(ctx, srv, d) })
}

// workers run the tools: one for the node in this process, and one for other nodes that join over the port.
type workers struct {
	local *task.Local
	all   []*worker.Worker
}

func (l Local) workers(ctx context.Context, d *cli.Cell, cfg worker.Config) (ws workers, err error) {
	ws.local = task.NewLocal()
	cfg.Queue, cfg.Offers = ws.local, ws.local
	configs := []worker.Config{cfg}
	if l.listen != "" {
		cfg.Offers = d.Offers(ulid.Make().String(), DefaultQueue)
		if cfg.Queue, err = d.Queue(ctx, DefaultQueue); err != nil {
			return ws, err
		}
		configs = append(configs, cfg)
	}
	for _, c := range configs {
		w, err := worker.New(c)
		if err != nil {
			return ws, err
		}
		ws.all = append(ws.all, w)
	}
	return ws, nil
}

// errDone ends a deployment whose work is done.
var errDone = errors.New("done")

// serve runs do while the workers and a node serve a cell.
func (ws workers) serve(ctx context.Context, node *actor.Node, keep func(context.Context), do func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range ws.all {
		group.Go(func() error { return w.Run(ctx) })
	}
	group.Go(func() error { return node.Run(ctx) })
	group.Go(func() error {
		keep(ctx)
		return nil
	})
	group.Go(func() error {
		select {
		case <-node.Ready():
			return cmp.Or(do(ctx), errDone)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err := group.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/effect"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

func shapes() []shape {
	return []shape{
		{"simple", inProcess},
		{"deployment", deployed(actorConfig)},
	}
}

// local is a session in this process.
type local struct {
	*agent.Driver
	journal journal.Journal
}

func (l local) Submit(ctx context.Context, b events.OnBusy, items ...content.Item) error {
	return l.Send(ctx, b, items...)
}

func (l local) Resolve(ctx context.Context, call content.CallID, v agent.Decision, patch []byte) error {
	if patch != nil {
		return l.ResolveApprovalForWithPatchedInput(ctx, call, patch)
	}
	return l.ResolveApprovalFor(ctx, call, v)
}

func (l local) Transcript() []content.Item { return l.Snapshot().Transcript }
func (l local) Journal() journal.Journal   { return l.journal }

func inProcess(t *testing.T, ctx context.Context, sc *scenario, w *workshop) session {
	t.Helper()
	m, err := scripted.Parse(sc.name, []byte(sc.Script))
	if err != nil {
		t.Fatal(err)
	}
	j := journal.NewMemory()
	c := agent.Config{
		Model: m, SystemPrompt: sc.Config.System, Tools: []tool.Source{w.source(t)}, Permissions: w,
		MaxParallel: sc.Config.MaxParallel, Limits: sc.Config.Limits.of(),
		Retry: events.Retry{ModelAttempts: sc.Config.Attempts}, Journal: j,
	}
	if sc.Config.FailRun {
		c.OnToolError = agent.FailRun
	}
	a, err := agent.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(ctx, agent.SessionConfig{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(ctx)) }) // at its end there is nothing that could fail
	return local{d, j}
}

// remote is a session of a deployment.
type remote struct {
	*client.Session
	cell *jetstream.Cell
}

func (r remote) Resolve(ctx context.Context, call content.CallID, v agent.Decision, patch []byte) error {
	return r.Ask(ctx, commands.ResolveApproval{Call: call, Approve: v.Approve, Reason: v.Reason, By: v.By, Input: patch})
}

func (r remote) Transcript() []content.Item { return r.Snapshot().Transcript }
func (r remote) Journal() journal.Journal   { return r.cell.Journal() }

// deployed is a server, a worker and as many nodes as die, in a bubble.
func deployed(configure func(*deployment) actor.Config) func(*testing.T, context.Context, *scenario, *workshop) session {
	return func(t *testing.T, ctx context.Context, sc *scenario, w *workshop) session {
		t.Helper()
		srv, err := embedded.Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Close)
		d := &deployment{t: t, srv: srv, shop: w, configure: configure}
		cell := d.open(d.connect())
		if err := cell.Provision(ctx, jetstream.Config{Memory: true, Queues: []jetstream.QueueConfig{{Name: "q", AckWait: 5 * time.Second}}}); err != nil {
			t.Fatal(err)
		}
		d.work(ctx)
		d.drive(ctx)
		c, err := client.Open(d.connect(), "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Start(ctx, client.Options{
			ID: id, SystemPrompt: sc.Config.System, Stepped: true,
			Config: events.Config{
				Model: "scripted:" + sc.name, ModelData: []byte(sc.Script), MaxParallel: sc.Config.MaxParallel,
				FailRun: sc.Config.FailRun, Limits: sc.Config.Limits.of(), ApprovalTTL: sc.Config.ApprovalTTL,
				Retry: events.Retry{ModelAttempts: sc.Config.Attempts},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return remote{s, cell}
	}
}

// deployment is where a deployed session lives.
type deployment struct {
	t         *testing.T
	srv       *embedded.Server
	shop      *workshop
	configure func(*deployment) actor.Config

	node *nats.Conn // of the node that drives
}

func (d *deployment) connect() *nats.Conn {
	d.t.Helper()
	nc, err := d.srv.Connect()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(nc.Close)
	return nc
}

func (d *deployment) open(nc *nats.Conn) *jetstream.Cell {
	d.t.Helper()
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		d.t.Fatal(err)
	}
	return cell
}

// work runs a worker until the test ends.
func (d *deployment) work(ctx context.Context) {
	d.t.Helper()
	cell := d.open(d.connect())
	queue, err := cell.Queue(ctx, "q")
	if err != nil {
		d.t.Fatal(err)
	}
	source := d.shop.source(d.t)
	tools, err := source.Tools(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	offer := jetstream.Offer{Worker: "w", Queue: "q"}
	for _, x := range tools {
		offer.Tools = append(offer.Tools, x.Spec())
	}
	w, err := worker.New(worker.Config{Queue: queue, Tools: []tool.Source{source}, Logger: zap.NewNop()})
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cell.Catalog().Advertise(ctx, offer); err != nil {
		d.t.Fatal(err)
	}
	d.keep(ctx, func(ctx context.Context) error { return w.Run(ctx) })
	d.keep(ctx, func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(3 * time.Second):
			}
			if err := cell.Catalog().Advertise(ctx, offer); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
}

// drive runs nodes, one at a time, until the test ends: when one loses its
// connection the next one begins.
func (d *deployment) drive(ctx context.Context) {
	d.t.Helper()
	ready := make(chan struct{})
	d.keep(ctx, func(ctx context.Context) error {
		for first := true; ; first = false {
			nc, err := d.srv.Connect()
			if err != nil {
				return err
			}
			cell, err := jetstream.Open(nc, "")
			if err != nil {
				return err
			}
			d.node = nc
			node, err := actor.NewNode(cell, d.configure(d))
			if err != nil {
				return err
			}
			if first {
				go func() { <-node.Ready(); close(ready) }()
			}
			err = node.Run(ctx)
			nc.Close()
			if !errors.Is(err, nats.ErrConnectionClosed) {
				return err
			}
		}
	})
	<-ready
}

// keep runs something until the test ends, and waits for it then.
func (d *deployment) keep(ctx context.Context, run func(context.Context) error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	d.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			d.t.Errorf("part of the deployment: %v", err)
		}
	})
}

func actorConfig(d *deployment) actor.Config {
	return actor.Config{
		Effects: effect.Config{Permissions: d.shop},
		Models:  func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) },
	}
}

// crashing is a deployment whose n-th append is the last thing that its node does.
// died says whether there were so many.
func crashing(n int, died *bool) shape {
	var appended atomic.Int64
	return shape{"crash", deployed(func(d *deployment) actor.Config {
		c := actorConfig(d)
		c.Metrics = &killer{func() {
			if appended.Add(1) == int64(n) {
				*died = true
				d.node.Close()
			}
		}}
		return c
	})}
}

// killer kills a node.
type killer struct{ appended func() }

func (k *killer) SessionTaken()                    {}
func (k *killer) SessionLeft(string)               {}
func (k *killer) CommandHandled(string, string)    {}
func (k *killer) EntryAppended(int, time.Duration) { k.appended() }
func (k *killer) EffectStarted(string)             {}

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// site is a server with the streams of a deployment. It is used for one session after another.
type site struct {
	*turnlogtest.Deployment
	sessions int // so far
}

func newSite(ctx context.Context, t *testing.T) *site {
	t.Helper()
	return &site{Deployment: turnlogtest.Empty(ctx, t, turnlogtest.Lease(2*time.Second))}
}

// shapes returns the shapes of a deployment.
func (s *site) shapes() []shape {
	return []shape{
		{name: "deployment", open: deployed(s, false, nodeConfig), deployed: true},
		{name: "local", open: deployed(s, true, nodeConfig), deployed: true},
	}
}

// clear removes what a session has left for nodes and workers to do, the offers of its worker, and the records of its
// dead nodes, which every later node would read in each sweep.
func (s *site) clear() {
	s.T.Helper()
	for _, stream := range []string{"TURNLOG_INBOX", "TURNLOG_NAMED", "TURNLOG_TIMERS", "TURNLOG_RUN", "TURNLOG_TASKS", "KV_TURNLOG_NODES", "KV_TURNLOG_CATALOG"} {
		answer, err := s.Conn.RequestWithContext(s.Ctx, "$JS.API.STREAM.PURGE."+stream, nil)
		if err != nil || !bytes.Contains(answer.Data, []byte(`"success":true`)) {
			s.T.Fatalf("purge %s: %v %v", stream, answer, err)
		}
	}
}

// deployed returns a deployment on a site: a worker, and one node at a time. The worker is a
// separate process, or with local, in the process of each node.
func deployed(on *site, local bool, configure func(*deployment) actor.Config) func(*testing.T, context.Context, *scenario, *workshop) hosted {
	return func(t *testing.T, ctx context.Context, sc *scenario, w *workshop) hosted {
		t.Helper()
		on.sessions++
		d := &deployment{Deployment: on.Deployment, sc: sc, shop: w, configure: configure, local: local}
		if !local {
			d.work(ctx)
		}
		d.drive(ctx)
		f := sc.Config.facts()
		if sc.Agent != "" {
			f = events.Config{Agent: sc.ref(t)}
		}
		f.Model, f.ModelData = "scripted:"+sc.name, []byte(sc.Script)
		s := d.Start(content.SessionID(fmt.Sprintf("s-%d", on.sessions)), sc.Script, func(o *client.Options) {
			o.SystemPrompt, o.Transcript, o.Stepped, o.Config = sc.Config.System, sc.Config.transcript(), !sc.Config.Unstepped, f
		})
		fork := func(of *loop.State, head journal.Head) (*session.Session, error) {
			at := events.EntryRef{Session: of.Session, Seq: head.Seq, Hash: head.Hash}
			return d.Client.Start(ctx, client.Options{ID: of.Session + forkID(head), From: at})
		}
		return hosted{s, d.Cell.Journal(), fork, func() {
			_ = s.Close(context.WithoutCancel(ctx)) // nothing to save
			for _, stop := range slices.Backward(d.stops) {
				stop()
			}
		}}
	}
}

// deployment is the deployment of a session.
type deployment struct {
	*turnlogtest.Deployment
	sc        *scenario
	shop      *workshop
	configure func(*deployment) actor.Config
	local     bool

	node  *nats.Conn // of the current node
	stops []func()   // end what runs in the background
}

// work runs a worker until the session ends.
func (d *deployment) work(ctx context.Context) {
	d.T.Helper()
	nc, err := d.Server.Connect()
	if err != nil {
		d.T.Fatal(err)
	}
	d.stops = append(d.stops, nc.Close)
	cell := d.Open(nc)
	queue, err := cell.Queue(ctx, turnlogtest.Queue)
	if err != nil {
		d.T.Fatal(err)
	}
	w, err := d.worker(queue, nil)
	if err != nil {
		d.T.Fatal(err)
	}
	advertise := func() {
		offer := jetstream.Offer{Worker: "w", Queue: turnlogtest.Queue, Tools: d.tools(ctx)}
		if err := cell.Catalog().Advertise(ctx, offer); err != nil && ctx.Err() == nil {
			d.T.Errorf("advertise: %v", err)
		}
	}
	advertise()
	d.shop.offer = advertise
	d.keep(ctx, func(ctx context.Context) error { return w.Run(ctx) })
	d.keep(ctx, func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(3 * time.Second):
				advertise()
			}
		}
	})
}

// worker returns a worker with the scenario's tools.
func (d *deployment) worker(queue task.Queue, offers worker.Offers) (*worker.Worker, error) {
	return worker.New(worker.Config{Queue: queue, Offers: offers, Tools: d.shop.sources(), Root: d.shop.root, Logger: zap.NewNop()})
}

// tools returns the current tools of the worker.
func (d *deployment) tools(ctx context.Context) (all []tool.Spec) {
	for _, source := range d.shop.sources() {
		tools, err := source.Tools(ctx)
		if err != nil {
			d.T.Error(err)
		}
		for _, x := range tools {
			all = append(all, x.Spec())
		}
	}
	return all
}

// localWorker runs a worker in the process of a node until the node has ended.
func (d *deployment) localWorker(ctx context.Context, local *task.Local) (end func(), err error) {
	w, err := d.worker(local, local)
	if err != nil {
		return nil, err
	}
	d.shop.offer = func() { _ = local.Advertise(ctx, task.Offer{Tools: d.tools(ctx)}) } // it cannot fail
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-local.Ready()
	return func() {
		stop()
		if err := <-ended; err != nil {
			d.T.Errorf("the worker in the node: %v", err)
		}
	}, nil
}

// drive runs one node after another until the session ends: when one loses its connection, the next
// one starts.
func (d *deployment) drive(ctx context.Context) {
	d.T.Helper()
	ready := make(chan struct{})
	d.keep(ctx, func(ctx context.Context) error {
		for first := true; ; first = false {
			nc, err := d.Server.Connect()
			if err != nil {
				return err
			}
			cell, err := jetstream.Open(nc, "")
			if err != nil {
				return err
			}
			d.node = nc
			cfg, end := d.configure(d), func() {}
			if d.local {
				cfg.Local = task.NewLocal()
				if end, err = d.localWorker(ctx, cfg.Local); err != nil {
					return err
				}
			}
			node, err := actor.NewNode(cell, cfg)
			if err != nil {
				return err
			}
			if first {
				go func() { <-node.Ready(); close(ready) }()
			}
			err = node.Run(ctx)
			nc.Close()
			end()
			if !errors.Is(err, nats.ErrConnectionClosed) {
				return err
			}
		}
	})
	<-ready
	synctest.Wait() // until the node has a record, without which no other node notices its death
}

// keep runs a function in the background until the session ends.
func (d *deployment) keep(ctx context.Context, run func(context.Context) error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	d.stops = append(d.stops, func() {
		stop()
		if err := <-ended; err != nil {
			d.T.Errorf("part of the deployment: %v", err)
		}
	})
}

func nodeConfig(d *deployment) actor.Config {
	return actor.Config{
		Policy: d.sc.policy(),
		Effects: engine.Config{
			Permissions: d.shop, Hooks: d.shop.hooks(d.sc), Mutators: mutators(d.T, d.sc), Notes: memory(d.sc),
		},
		Models: d.sc.model,
		Agents: agentfile.Host{
			Models:   d.sc.model,
			Commands: true, Folder: d.shop.root, Root: d.shop.root,
		},
	}
}

// crashing returns a deployment of that shape on a site, whose node dies after the n-th append. died reports
// whether there was one.
func crashing(on *site, name string, n int, died *bool) shape {
	var appended atomic.Int64
	return shape{name: name + " crash", open: deployed(on, name == "local", func(d *deployment) actor.Config {
		c := nodeConfig(d)
		c.Metrics = &killer{func() {
			if appended.Add(1) == int64(n) {
				*died = true
				d.node.Close()
			}
		}}
		return c
	}), deployed: true}
}

// killer kills a node.
type killer struct{ appended func() }

func (k *killer) SessionTaken()                                   {}
func (k *killer) SessionLeft(string)                              {}
func (k *killer) CommandHandled(string, string)                   {}
func (k *killer) EntryAppended(events.Entry, bool, time.Duration) { k.appended() }
func (k *killer) EffectStarted(string)                            {}

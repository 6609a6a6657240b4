package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/effect"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/worker"
)

// remote is a session of a deployment.
type remote struct {
	*client.Session
	cell *jetstream.Cell
}

func (r remote) Journal() journal.Journal { return r.cell.Journal() }

// deployed is a server, a worker and as many nodes as die, in a bubble.
func deployed(configure func(*deployment) actor.Config) func(*testing.T, context.Context, *scenario, *workshop) session {
	return func(t *testing.T, ctx context.Context, sc *scenario, w *workshop) session {
		t.Helper()
		srv, err := embedded.Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			synctest.Wait() // a request that it still works on could not end while it closes, in virtual time
			srv.Close()
		})
		d := &deployment{t: t, srv: srv, sc: sc, shop: w, configure: configure}
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
		f := sc.Config.facts()
		f.Model, f.ModelData = "scripted:"+sc.name, []byte(sc.Script)
		s, err := c.Start(ctx, client.Options{
			ID: id, SystemPrompt: sc.Config.System, Transcript: sc.Config.transcript(), Stepped: !sc.Config.Unstepped, Config: f,
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
	sc        *scenario
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
	w, err := worker.New(worker.Config{Queue: queue, Tools: d.shop.sources(d.t), Logger: zap.NewNop()})
	if err != nil {
		d.t.Fatal(err)
	}
	advertise := func() {
		if err := cell.Catalog().Advertise(ctx, d.offer(ctx)); err != nil && ctx.Err() == nil {
			d.t.Errorf("advertise: %v", err)
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

// offer is what the worker has now.
func (d *deployment) offer(ctx context.Context) jetstream.Offer {
	o := jetstream.Offer{Worker: "w", Queue: "q"}
	for _, source := range d.shop.sources(d.t) {
		tools, err := source.Tools(ctx)
		if err != nil {
			d.t.Error(err)
		}
		for _, x := range tools {
			o.Tools = append(o.Tools, x.Spec())
		}
	}
	return o
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

func nodeConfig(d *deployment) actor.Config {
	return actor.Config{
		Effects: effect.Config{
			Permissions: d.shop, Hooks: d.shop.hooks(d.sc), Mutators: mutators(d.t, d.sc), Memory: memory(d.sc),
		},
		Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) },
	}
}

// crashing is a deployment whose n-th append is the last thing that its node does.
// died says whether there were so many.
func crashing(n int, died *bool) shape {
	var appended atomic.Int64
	return shape{"crash", deployed(func(d *deployment) actor.Config {
		c := nodeConfig(d)
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

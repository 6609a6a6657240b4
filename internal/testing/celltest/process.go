package celltest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// Process is something that runs on a connection of its own: a node, a worker.
type Process struct {
	Conn *nats.Conn

	stop  context.CancelFunc
	ended chan error
}

// Run runs something beside the test.
func (w *World) Run(nc *nats.Conn, run func(context.Context) error) *Process {
	ctx, stop := context.WithCancel(w.Ctx)
	p := &Process{Conn: nc, stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- run(ctx) }()
	return p
}

// Ended brings what the process ended with, to whoever asks first: the test, Drain or
// Crash.
func (p *Process) Ended() <-chan error { return p.ended }

// Stop tells the process to end, and does not wait.
func (p *Process) Stop() { p.stop() }

// Drain ends the process as SIGTERM does.
func (p *Process) Drain(t testing.TB) {
	t.Helper()
	p.stop()
	if err := <-p.ended; err != nil {
		t.Errorf("drained: %v", err)
	}
}

// Crash cuts the process off: nothing it does reaches anybody any more.
func (p *Process) Crash(t testing.TB) {
	t.Helper()
	p.Conn.Close()
	p.stop()
	if err := <-p.ended; err != nil {
		t.Logf("crashed: %v", err)
	}
}

// Node runs a node and waits until it is ready. Its models follow scripts, unless the
// configuration says otherwise.
func (w *World) Node(cfg actor.Config, change ...func(*actor.Node)) *Process {
	w.T.Helper()
	if cfg.Models == nil {
		cfg.Models = func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }
	}
	nc := w.Connect()
	n, err := actor.NewNode(w.Open(nc), cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, c := range change {
		c(n)
	}
	p := w.Run(nc, n.Run)
	select {
	case <-n.Ready():
	case err := <-p.ended:
		w.T.Fatalf("node %s: %v", cfg.Name, err)
	}
	return p
}

// Worker runs a worker on the world's queue, with tools that may use its connection.
// They are on offer when it returns.
func (w *World) Worker(name string, cfg worker.Config, tools func(*nats.Conn) []tool.Tool) *Process {
	w.T.Helper()
	nc := w.Connect()
	cell := w.Open(nc)
	queue, err := cell.Queue(w.Ctx, Queue)
	if err != nil {
		w.T.Fatal(err)
	}
	all := tools(nc)
	own, err := tool.NewRegistry("own", all...)
	if err != nil {
		w.T.Fatal(err)
	}
	cfg.Queue, cfg.Tools, cfg.Offers = queue, []tool.Source{own}, Offers{cell.Catalog(), name}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	run, err := worker.New(cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Offer(name, all...)
	return w.Run(nc, run.Run)
}

// Offer puts tools into the catalog, whether or not there is a worker of that name.
func (w *World) Offer(name string, tools ...tool.Tool) {
	w.T.Helper()
	specs := make([]tool.Spec, len(tools))
	for i, t := range tools {
		specs[i] = t.Spec()
	}
	if err := (Offers{w.Cell.Catalog(), name}).Advertise(w.Ctx, specs); err != nil {
		w.T.Fatal(err)
	}
}

// Offers puts a worker's tools into the catalog.
type Offers struct {
	Catalog *jetstream.Catalog
	Worker  string
}

// Advertise offers the tools.
func (o Offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	return o.Catalog.Advertise(ctx, jetstream.Offer{Worker: o.Worker, Queue: Queue, Tools: tools})
}

// Withdraw takes the offer back.
func (o Offers) Withdraw(ctx context.Context) error { return o.Catalog.Withdraw(ctx, o.Worker) }

package turnlogtest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// Process is a node or a worker with a separate connection.
type Process struct{ *cell.Process }

// process returns a process with a separate connection.
func (d *Deployment) process(name string) *Process {
	nc := d.Connect()
	return &Process{cell.NewProcess(name, nc, d.Open(nc), nil)}
}

// Drain ends the process as SIGTERM does.
func (p *Process) Drain(t testing.TB) {
	t.Helper()
	p.Stop()
	if err := p.Wait(context.Background()); err != nil {
		t.Errorf("drained: %v", err)
	}
}

// Crash cuts the process off, so that nothing it does reaches the server, and waits for it.
func (p *Process) Crash(t testing.TB) {
	t.Helper()
	p.Kill()
	if err := p.Wait(context.Background()); err != nil {
		t.Logf("crashed: %v", err)
	}
}

// Node runs a node and waits until it is ready. Its models follow scripts, unless the
// configuration says otherwise.
func (d *Deployment) Node(cfg actor.Config, change ...func(*actor.Node)) *Process {
	d.T.Helper()
	p := d.process(cfg.Name)
	d.drive(d.Ctx, p, cfg, change...)
	return p
}

func (d *Deployment) drive(ctx context.Context, p *Process, cfg actor.Config, change ...func(*actor.Node)) {
	d.T.Helper()
	n, err := p.Process.Node(cfg)
	if err != nil {
		d.T.Fatal(err)
	}
	for _, c := range change {
		c(n)
	}
	d.ready(ctx, p, n, n.Run)
}

// NodeWithTools runs a node and a worker in one process, and waits until the node is ready.
func (d *Deployment) NodeWithTools(cfg actor.Config, beside worker.Config, tools ...tool.Tool) *Process {
	d.T.Helper()
	p := d.process(cfg.Name)
	n, run, err := p.Process.NodeWithTools(d.Ctx, cfg, beside, tools...)
	if err != nil {
		d.T.Fatal(err)
	}
	d.ready(d.Ctx, p, n, run)
	return p
}

// ready runs a node's process and waits until the node is ready.
func (d *Deployment) ready(ctx context.Context, p *Process, n *actor.Node, run func(context.Context) error) {
	d.T.Helper()
	p.Run(ctx, run)
	select {
	case <-n.Ready():
	case <-p.Done():
		if ctx.Err() == nil {
			d.T.Fatalf("node %s: %v", n.Name(), p.Err())
		}
	}
}

// Worker runs a worker on the deployment's queue, with tools that may use its connection. The
// tools are in the catalog when it returns.
func (d *Deployment) Worker(name string, cfg worker.Config, tools func(*nats.Conn) []tool.Tool) *Process {
	d.T.Helper()
	p := d.process(name)
	d.work(d.Ctx, p, cfg, tools(p.Conn)...)
	return p
}

func (d *Deployment) work(ctx context.Context, p *Process, cfg worker.Config, tools ...tool.Tool) {
	d.T.Helper()
	w, err := p.Process.Worker(ctx, Queue, cfg, tools...)
	if err != nil {
		d.T.Fatal(err)
	}
	d.Offer(p.Name, tools...)
	p.Run(ctx, w.Run)
}

// Offer puts tools into the catalog, whether or not there is a worker of that name.
func (d *Deployment) Offer(name string, tools ...tool.Tool) {
	d.T.Helper()
	offer := jetstream.Offer{Worker: name, Queue: Queue}
	for _, t := range tools {
		offer.Tools = append(offer.Tools, t.Spec())
	}
	if err := d.Cell.Catalog().Advertise(d.Ctx, offer); err != nil {
		d.T.Fatal(err)
	}
}

package celltest

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

// Process is a process of a world.
type Process struct{ *cell.Process }

// process returns a process that has a connection of its own.
func (w *World) process(name string) *Process {
	nc := w.Connect()
	return &Process{cell.NewProcess(name, nc, w.Open(nc), nil)}
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
func (w *World) Node(cfg actor.Config, change ...func(*actor.Node)) *Process {
	w.T.Helper()
	p := w.process(cfg.Name)
	n, err := p.Process.Node(cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, c := range change {
		c(n)
	}
	return w.ready(p, n, n.Run)
}

// NodeWithTools runs a node with a worker beside it, in one process, and waits until it is ready.
func (w *World) NodeWithTools(cfg actor.Config, beside worker.Config, tools ...tool.Tool) *Process {
	w.T.Helper()
	p := w.process(cfg.Name)
	n, run, err := p.Process.NodeWithTools(w.Ctx, cfg, beside, tools...)
	if err != nil {
		w.T.Fatal(err)
	}
	return w.ready(p, n, run)
}

// ready runs the process of a node and waits until the node is ready.
func (w *World) ready(p *Process, n *actor.Node, run func(context.Context) error) *Process {
	w.T.Helper()
	p.Run(w.Ctx, run)
	select {
	case <-n.Ready():
	case <-p.Done():
		w.T.Fatalf("node %s: %v", n.Name(), p.Err())
	}
	return p
}

// Worker runs a worker on the world's queue, with tools that may use its connection. They
// are on offer when it returns.
func (w *World) Worker(name string, cfg worker.Config, tools func(*nats.Conn) []tool.Tool) *Process {
	w.T.Helper()
	p := w.process(name)
	all := tools(p.Conn)
	run, err := p.Process.Worker(w.Ctx, Queue, cfg, all...)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Offer(name, all...)
	p.Run(w.Ctx, run.Run)
	return p
}

// Offer puts tools into the catalog, whether or not there is a worker of that name.
func (w *World) Offer(name string, tools ...tool.Tool) {
	w.T.Helper()
	offer := jetstream.Offer{Worker: name, Queue: Queue}
	for _, t := range tools {
		offer.Tools = append(offer.Tools, t.Spec())
	}
	if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
		w.T.Fatal(err)
	}
}

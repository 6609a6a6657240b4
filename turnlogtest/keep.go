package turnlogtest

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/worker"
)

// reconnect is how long a process waits before it connects again after a fault. The NATS client's default takes seconds.
const reconnect = 20 * time.Millisecond

// run starts the node and the worker of New.
func (d *Deployment) run() {
	d.T.Helper()
	if len(d.opts.tools) > 0 {
		d.keep(&d.worker, "worker", func(ctx context.Context, p *Process) {
			var cfg worker.Config
			for _, change := range d.opts.worker {
				change(&cfg)
			}
			d.work(ctx, p, cfg, d.opts.tools...)
		})
	}
	d.keep(&d.node, "node", func(ctx context.Context, p *Process) {
		cfg := d.opts.nodeConfig(p.Name)
		cfg.Metrics = d.watched(cfg.Metrics)
		d.drive(ctx, p, cfg)
	})
}

// keep starts a process, and starts another one each time it is killed, until the test ends.
func (d *Deployment) keep(current **Process, kind string, start func(context.Context, *Process)) {
	d.T.Helper()
	ctx, stop := context.WithCancel(d.Ctx)
	next := func(n int) *Process {
		var network *faultproxy.Proxy
		var opts []nats.Option
		if d.opts.faulty {
			network = faultproxy.New()
			opts = append(opts, network.Option(), nats.MaxReconnects(-1), nats.ReconnectWait(reconnect), nats.ReconnectJitter(reconnect, reconnect))
		}
		nc, err := d.Server.Connect(opts...)
		if err != nil {
			d.T.Fatal(err)
		}
		p := &Process{cell.NewProcess(fmt.Sprintf("%s-%d", kind, n), nc, d.Open(nc), network)}
		d.mu.Lock()
		*current = p
		d.mu.Unlock()
		start(ctx, p)
		return p
	}
	p, ended := next(1), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 2; ; n++ {
			<-p.Done()
			p.Conn.Close()
			if p.Proxy != nil {
				p.Proxy.Close()
			}
			if ctx.Err() != nil {
				return
			}
			if !p.killed() {
				d.T.Errorf("%s ended: %v", p.Name, p.Err())
				return
			}
			p = next(n)
		}
	}()
	d.T.Cleanup(func() {
		stop()
		<-ended
	})
}

// killed reports whether the process was killed.
func (p *Process) killed() bool {
	select {
	case <-p.Dead():
		return true
	default:
		return false
	}
}

// KillNode cuts off the node that New started, so that nothing it does reaches the server. Another node
// takes over.
func (d *Deployment) KillNode() {
	d.T.Helper()
	d.kill(&d.node)
}

// KillWorker cuts off the worker that New started. Its tools do nothing more. Another worker starts.
func (d *Deployment) KillWorker() {
	d.T.Helper()
	d.kill(&d.worker)
}

func (d *Deployment) kill(current **Process) {
	d.T.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if *current == nil {
		d.T.Fatal("New started no such process")
	}
	if !(*current).killed() {
		(*current).Kill()
	}
}

// watched returns metrics that also count appends.
func (d *Deployment) watched(m actor.Metrics) actor.Metrics {
	if m == nil {
		m = silent{}
	}
	return &watch{Metrics: m, d: d}
}

// watch kills the node after the append that CrashAfter sets.
type watch struct {
	actor.Metrics

	d *Deployment
}

// EntryAppended is called by the goroutine that appended, so the node does nothing more with the entry.
func (w *watch) EntryAppended(e events.Entry, over bool, took time.Duration) {
	w.Metrics.EntryAppended(e, over, took)
	if w.d.appends.Add(1) == int64(w.d.opts.crash) {
		w.d.KillNode()
	}
}

// silent are metrics that nothing reads.
type silent struct{}

func (silent) SessionTaken()                                   {}
func (silent) SessionLeft(string)                              {}
func (silent) CommandHandled(string, string)                   {}
func (silent) EntryAppended(events.Entry, bool, time.Duration) {}
func (silent) EffectStarted(string)                            {}

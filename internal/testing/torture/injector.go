package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
)

// loss is the moment at which a node lost its sessions.
type loss struct {
	node string
	at   time.Time
}

// injector carries out a plan of faults. It belongs to one goroutine.
type injector struct {
	world   *world
	plan    []Fault
	pending sync.WaitGroup // faults that last, and replacements of killed processes

	done   map[Kind]int
	losses []loss
}

// inject carries out the whole plan, which takes at least the length of the run. When ctx ends, it
// stops early and undoes all faults.
func (f *injector) inject(ctx context.Context) {
	began := time.Now()
	for _, fault := range f.plan {
		if !pause.For(ctx, time.Until(began.Add(fault.At))) {
			break
		}
		if target, ok := f.apply(ctx, fault); ok {
			fault.Target = target
			f.done[fault.Kind]++
			f.world.log.note("fault: %v", fault)
			f.world.cfg.OnFault(fault)
		}
	}
	pause.For(ctx, time.Until(began.Add(f.world.cfg.Duration)))
}

// apply causes one fault and reports its target, or false if there is none.
func (f *injector) apply(ctx context.Context, x Fault) (target string, ok bool) {
	switch x.Kind {
	case NodeKilled:
		return f.kill(ctx, &f.world.nodes, x, f.world.node)
	case WorkerKilled:
		return f.kill(ctx, &f.world.workers, x, f.world.worker)
	case NodeDrained:
		return f.drain(ctx, x)
	case NodeFrozen:
		return f.freeze(ctx, f.world.nodes.pick(x.Pick), x)
	case WorkerFrozen:
		return f.freeze(ctx, f.world.workers.pick(x.Pick), x)
	case LeaderStepdown:
		all := f.world.site.stepdowns()
		what := all[x.Pick%uint64(len(all))]
		f.pending.Go(func() {
			if err := f.world.site.ask(ctx, what); err != nil { // there may be no leader at the moment
				f.world.log.note("stepdown: %v", err)
			}
		})
		return what, true
	case ServerStopped:
		return f.stopServer(ctx, x)
	case StreamRolledBack:
		return f.rollback(ctx, x)
	case HostileSender:
		return f.hostile(ctx, x)
	case ConnectionsCut, ConnectionsSlowed, AcksSwallowed:
	}
	p := f.world.pickAny(x.Pick)
	if p == nil {
		return "", false
	}
	switch x.Kind {
	case ConnectionsSlowed:
		f.runFault(ctx, x, func() { p.Proxy.Delay(20*time.Millisecond + time.Duration(x.Pick>>32)%(180*time.Millisecond)) }, //nolint:gosec // any number works
			func() { p.Proxy.Delay(0) })
	case AcksSwallowed:
		f.runFault(ctx, x, func() { p.Proxy.Swallow(faultproxy.ToClient, true) }, func() { p.Proxy.Swallow(faultproxy.ToClient, false) })
	case ConnectionsCut:
		p.Proxy.Cut()
	case NodeKilled, WorkerKilled, NodeDrained, NodeFrozen, WorkerFrozen, LeaderStepdown, ServerStopped, StreamRolledBack, HostileSender:
	}
	return p.Name, true
}

// runFault starts a fault and ends it after its length.
func (f *injector) runFault(ctx context.Context, x Fault, do, undo func()) {
	do()
	f.pending.Go(func() {
		pause.For(ctx, x.Length)
		undo()
	})
}

// kill kills one process of a pool, and starts another a while later.
func (f *injector) kill(ctx context.Context, of *pool, x Fault, again func(context.Context) error) (string, bool) {
	p := of.take(x.Pick)
	if p == nil {
		return "", false
	}
	at := p.Kill()
	if x.Kind == NodeKilled {
		f.losses = append(f.losses, loss{p.Name, at})
	}
	f.world.addKilled(p)
	f.pending.Go(func() {
		pause.For(ctx, x.Length)
		if err := again(context.WithoutCancel(ctx)); err != nil {
			f.world.log.violation("", EndsInTime, fmt.Sprintf("%s is not replaced: %v", p.Name, err))
		}
	})
	return p.Name, true
}

// drain starts a node and then ends another one properly.
func (f *injector) drain(ctx context.Context, x Fault) (string, bool) {
	p := f.world.nodes.take(x.Pick)
	if p == nil {
		return "", false
	}
	f.pending.Go(func() {
		ctx := context.WithoutCancel(ctx)
		if err := f.world.node(ctx); err != nil {
			f.world.log.violation("", EndsInTime, fmt.Sprintf("%s is not replaced: %v", p.Name, err))
		}
		f.world.leave(ctx, []*cell.Process{p})
	})
	return p.Name, true
}

func (f *injector) freeze(ctx context.Context, p *cell.Process, x Fault) (string, bool) {
	if p == nil {
		return "", false
	}
	hold := func(yes bool) func() {
		return func() {
			p.Proxy.Refuse(yes)
			p.Proxy.Hold(faultproxy.ToServer, yes)
			p.Proxy.Hold(faultproxy.ToClient, yes)
		}
	}
	f.runFault(ctx, x, hold(true), hold(false))
	return p.Name, true
}

func (f *injector) stopServer(ctx context.Context, x Fault) (string, bool) {
	n, ok := f.world.site.stopServer(x.Pick)
	if !ok {
		return "", false
	}
	f.pending.Go(func() {
		pause.For(ctx, x.Length)
		if err := f.world.site.startServer(context.WithoutCancel(ctx)); err != nil {
			f.world.cfg.Logger.Error("server does not restart", zap.Error(err))
			f.world.log.violation("", EndsInTime, fmt.Sprintf("server %d does not restart: %v", n+1, err))
		}
	})
	return fmt.Sprintf("server %d", n+1), true
}

package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/testing/faultproxy"
)

// loss is a moment at which a node lost its sessions.
type loss struct {
	node string
	at   time.Time
}

// fate carries out the plan. Its methods but rest belong to one goroutine.
type fate struct {
	world  *world
	plan   []Fault
	beside sync.WaitGroup // faults that last, and whoever comes in place of the dead

	done   map[Kind]int
	losses []loss
}

// befall does what the plan says until ctx ends, and mends everything then.
func (f *fate) befall(ctx context.Context, began time.Time) {
	for _, fault := range f.plan {
		if !pause(ctx, time.Until(began.Add(fault.At))) {
			break
		}
		if whom, ok := f.strike(ctx, fault); ok {
			fault.Whom = whom
			f.done[fault.Kind]++
			f.world.log.note("fault: %v", fault)
			f.world.cfg.Told(fault)
		}
	}
	f.beside.Wait()
}

// strike does one fault and reports whom it hit; false: nobody was there to be hit.
func (f *fate) strike(ctx context.Context, x Fault) (whom string, ok bool) {
	switch x.Kind {
	case NodeKilled:
		return f.kill(ctx, &f.world.nodes, x, f.world.node)
	case WorkerKilled:
		return f.kill(ctx, &f.world.workers, x, f.world.worker)
	case NodeFrozen:
		return f.freeze(ctx, f.world.nodes.pick(x.Pick), x)
	case WorkerFrozen:
		return f.freeze(ctx, f.world.workers.pick(x.Pick), x)
	case LeaderStepdown:
		all := f.world.ground.stepdowns()
		what := all[x.Pick%uint64(len(all))]
		f.beside.Go(func() {
			if err := f.world.ground.ask(ctx, what); err != nil { // there may be no leader just now
				f.world.log.note("stepdown: %v", err)
			}
		})
		return what, true
	case ServerStopped:
		return f.stopServer(ctx, x)
	case ConnectionsCut, ConnectionsSlowed, AcksSwallowed:
	}
	p := f.world.anybody(x.Pick)
	if p == nil {
		return "", false
	}
	switch x.Kind {
	case ConnectionsSlowed:
		f.lasting(ctx, x, func() { p.proxy.Delay(20*time.Millisecond + time.Duration(x.Pick>>32)%(180*time.Millisecond)) }, //nolint:gosec // any number will do
			func() { p.proxy.Delay(0) })
	case AcksSwallowed:
		f.lasting(ctx, x, func() { p.proxy.Swallow(faultproxy.ToClient, true) }, func() { p.proxy.Swallow(faultproxy.ToClient, false) })
	case ConnectionsCut:
		p.proxy.Cut()
	case NodeKilled, WorkerKilled, NodeFrozen, WorkerFrozen, LeaderStepdown, ServerStopped:
	}
	return p.name, true
}

// lasting does something now and undoes it when the fault's time is over.
func (f *fate) lasting(ctx context.Context, x Fault, do, undo func()) {
	do()
	f.beside.Go(func() {
		pause(ctx, x.Length)
		undo()
	})
}

// kill kills one of several, and has another one start a while later.
func (f *fate) kill(ctx context.Context, of *crew, x Fault, again func(context.Context) error) (string, bool) {
	p := of.take(x.Pick)
	if p == nil {
		return "", false
	}
	at := p.kill()
	if x.Kind == NodeKilled {
		f.losses = append(f.losses, loss{p.name, at})
	}
	f.world.bury(p)
	f.beside.Go(func() {
		pause(ctx, x.Length)
		if err := again(context.WithoutCancel(ctx)); err != nil {
			f.world.log.violation("", EndsInTime, fmt.Sprintf("nobody comes in place of %s: %v", p.name, err))
		}
	})
	return p.name, true
}

func (f *fate) freeze(ctx context.Context, p *party, x Fault) (string, bool) {
	if p == nil {
		return "", false
	}
	hold := func(yes bool) func() {
		return func() {
			p.proxy.Refuse(yes)
			p.proxy.Hold(faultproxy.ToServer, yes)
			p.proxy.Hold(faultproxy.ToClient, yes)
		}
	}
	f.lasting(ctx, x, hold(true), hold(false))
	return p.name, true
}

func (f *fate) stopServer(ctx context.Context, x Fault) (string, bool) {
	n, ok := f.world.ground.stopServer(x.Pick)
	if !ok {
		return "", false
	}
	f.beside.Go(func() {
		pause(ctx, x.Length)
		if err := f.world.ground.startServer(context.WithoutCancel(ctx)); err != nil {
			f.world.cfg.Logger.Error("server does not start again", zap.Error(err))
			f.world.log.violation("", EndsInTime, fmt.Sprintf("server %d does not start again: %v", n+1, err))
		}
	})
	return fmt.Sprintf("server %d", n+1), true
}

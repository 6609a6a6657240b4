package torture

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/worker"
)

// pool holds processes of one kind that come and go. It is safe for concurrent use.
type pool struct {
	mu      sync.Mutex
	all     []*cell.Process
	started int
}

// name returns a name that no process of the pool had before.
func (c *pool) name(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started++
	return fmt.Sprint(prefix, c.started)
}

func (c *pool) add(p *cell.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
}

func (c *pool) list() []*cell.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// pick returns one of the processes, or nil if there is none.
func (c *pool) pick(pick uint64) *cell.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return one(c.all, pick)
}

// take removes one of the processes and returns it, or nil if there is none.
func (c *pool) take(pick uint64) *cell.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := one(c.all, pick)
	c.all = slices.DeleteFunc(c.all, func(o *cell.Process) bool { return o == p })
	return p
}

// one returns the process of a list that a number decides, or nil if there is none.
func one(all []*cell.Process, pick uint64) *cell.Process {
	if len(all) == 0 {
		return nil
	}
	return all[pick%uint64(len(all))]
}

// newProcess connects a process. It retries until ctx ends, since servers come and go.
func (g *site) newProcess(ctx context.Context, name string) (*cell.Process, error) {
	proxy := faultproxy.New()
	for {
		conn, c, err := g.connect(ctx, name, proxy)
		if err == nil {
			return cell.NewProcess(name, conn, c, proxy), nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			proxy.Close()
			return nil, fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
	}
}

// newNode starts a node, and restarts it when it ends by itself, as a supervisor would.
func (g *site) newNode(ctx context.Context, name string, f *findings, log *zap.Logger) (*cell.Process, error) {
	p, err := g.newProcess(ctx, name)
	if err != nil {
		return nil, err
	}
	p.Run(context.WithoutCancel(ctx), func(ctx context.Context) error {
		for {
			err := drive(ctx, p, log)
			if err == nil || closed(p.Dead()) || ctx.Err() != nil {
				return nil //nolint:nilerr // a killed node ends with any error
			}
			f.note("%s ended and is restarted: %v", name, err)
			pause(ctx, 200*time.Millisecond)
		}
	})
	return p, nil
}

func drive(ctx context.Context, p *cell.Process, log *zap.Logger) error {
	n, err := p.Node(actor.Config{Idle: time.Second, Sweep: 2 * time.Second, Snapshot: 20, Logger: log})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// newWorker starts a worker whose tools write to the ledger.
func (g *site) newWorker(ctx context.Context, name string, l *ledger, log *zap.Logger) (*cell.Process, error) {
	p, err := g.newProcess(ctx, name)
	if err != nil {
		return nil, err
	}
	tools, err := l.tools(p.Dead())
	if err != nil {
		return nil, err
	}
	for {
		w, err := p.Worker(ctx, queueName, worker.Config{Slots: 16, DrainTimeout: 3 * time.Second, Logger: log}, tools...)
		if err == nil {
			p.Run(context.WithoutCancel(ctx), w.Run)
			return p, nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// pause waits and reports whether ctx is still active.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

package torture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// pool holds the current processes of one kind. It is safe for concurrent use.
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

// one returns the process that a number selects from a list, or nil if the list is empty.
func one(all []*cell.Process, pick uint64) *cell.Process {
	if len(all) == 0 {
		return nil
	}
	return all[pick%uint64(len(all))]
}

// newProcess connects a process. It retries until ctx ends, since servers stop and restart.
func (g *site) newProcess(ctx context.Context, name string) (*cell.Process, error) {
	proxy := faultproxy.New()
	for {
		conn, c, err := g.connect(ctx, name, proxy)
		if err == nil {
			return cell.NewProcess(name, conn, c, proxy), nil
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			proxy.Close()
			return nil, fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
	}
}

// supervise runs a node, and restarts it when it ends on its own.
func (w *world) supervise(ctx context.Context, p *cell.Process) {
	for {
		err := w.drive(ctx, p)
		if err == nil || closed(p.Dead()) || ctx.Err() != nil {
			return // a killed node ends with any error
		}
		w.log.note("%s ended and is restarted: %v", p.Name, err)
		pause.For(ctx, 200*time.Millisecond)
	}
}

func (w *world) drive(ctx context.Context, p *cell.Process) error {
	cfg := w.cfg.Workload.Node
	cfg.Idle, cfg.Sweep, cfg.Snapshot, cfg.Logger = time.Second, 2*time.Second, 20, w.cfg.Logger
	if !w.cfg.Local {
		n, err := p.Node(cfg)
		if err != nil {
			return err
		}
		return n.Run(ctx)
	}
	beside, tools, err := w.tools(p)
	if err != nil {
		return err
	}
	_, run, err := p.NodeWithTools(ctx, cfg, beside, tools...)
	if err != nil {
		return err
	}
	return run(ctx)
}

// tools returns what a worker runs, and how: the workload's tools, or those that write to the ledger.
func (w *world) tools(p *cell.Process) (cfg worker.Config, tools []tool.Tool, err error) {
	cfg, tools = w.cfg.Workload.Worker, w.cfg.Workload.Tools
	cfg.Slots, cfg.Logger = 16, w.cfg.Logger
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 3*time.Second)
	if tools == nil {
		tools, err = w.ledger.tools(p.Dead())
	}
	return cfg, tools, err
}

func (w *world) newWorker(ctx context.Context, p *cell.Process) (*worker.Worker, error) {
	cfg, tools, err := w.tools(p)
	if err != nil {
		return nil, err
	}
	for {
		work, err := p.Worker(ctx, Queue, cfg, tools...)
		if err == nil || !pause.For(ctx, 100*time.Millisecond) {
			return work, err
		}
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

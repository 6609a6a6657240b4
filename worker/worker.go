package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Config says what a worker runs, and how.
type Config struct {
	Queue  task.Queue    // where it claims tasks; closed when Run drains
	Tools  []tool.Source // if two sources offer a name, the first one counts
	Logger *zap.Logger

	Slots          int           // calls at a time; 0: four for each CPU
	Waiters        int           // additional calls at a time, for calls that wait for others, such as calls of sub-agents
	DefaultTimeout time.Duration // timeout of a call if neither task nor tool sets one; 0: 2 min
	DrainTimeout   time.Duration // for running calls, after Run's context ended; 0: 10 s

	// Permissions check each call again just before its tool runs, because only the worker
	// can resolve paths. Their questions are reported. Nil: none.
	Permissions tool.Permissions
	// Root is the base of relative paths in the policy of a session's agent, see
	// permission.Policy; "": the working directory.
	Root string

	Resources any    // shared with the tools
	Offers    Offers // advertises the tools; nil: they are not advertised

	// Progress receives the progress of each call, at most ten times a second and always
	// including the last update. Nil: progress is dropped.
	Progress func(t task.Task, text string, share float64)
	// Observer receives the events of tasks; may be nil.
	Observer Observer
}

const (
	slotsPerCPU         = 4
	defaultTimeout      = 2 * time.Minute
	defaultDrainTimeout = 10 * time.Second

	toolGrace     = 5 * time.Second  // for a tool to return after its context ended
	settleTimeout = 15 * time.Second // for the reports after the drain
	closeTimeout  = 2 * time.Second  // for the withdrawal of pending requests to the queue
)

func (c Config) withDefaults() Config {
	c.Slots = cmp.Or(c.Slots, slotsPerCPU*runtime.NumCPU()) + c.Waiters
	c.Root = cmp.Or(c.Root, ".")
	c.DefaultTimeout = cmp.Or(c.DefaultTimeout, defaultTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Queue == nil:
		return errors.New("new worker: no queue")
	case c.Logger == nil:
		return errors.New("new worker: no logger: pass zap.NewNop() to disable logs")
	case c.Slots < 0 || c.Waiters < 0:
		return fmt.Errorf("new worker: %d slots: use 1 or more, or 0 for %d per CPU", c.Slots, slotsPerCPU)
	case c.DefaultTimeout < 0 || c.DrainTimeout < 0:
		return fmt.Errorf("new worker: default timeout %v, drain timeout %v: neither may be negative", c.DefaultTimeout, c.DrainTimeout)
	}
	return nil
}

// ErrStopped is the cause of a tool's context when the worker stops and the call did not finish
// within the drain timeout.
var ErrStopped = errors.New("worker stopped")

// Worker claims tasks and runs them. Its methods are safe for concurrent use.
type Worker struct {
	cfg     Config
	log     *zap.Logger
	tools   atomic.Pointer[tool.Catalog] // the sources' tools when they were last listed
	trouble atomic.Pointer[error]        // why the queue delivers no tasks
	running atomic.Int64                 // calls that run now
}

// New returns a worker that has not started. It returns an error for an invalid Config.
func New(cfg Config) (*Worker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	log := cfg.Logger.Named("worker").With(logfield.Queue(cfg.Queue.Name()))
	return &Worker{cfg: cfg, log: log}, nil
}

// Run claims and runs tasks until ctx ends, then drains and returns nil. If the tools cannot be
// listed it does nothing and returns an error. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.listTools(ctx); err != nil {
		return fmt.Errorf("worker of queue %s: %w", w.cfg.Queue.Name(), err)
	}
	outlast, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	idle, rest := context.WithCancel(context.WithoutCancel(ctx)) // ends when no call runs any more
	defer rest()
	stopping, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // ends when calls must stop
	defer stop(nil)

	w.log.Info("worker started", zap.Int("slots", w.cfg.Slots), zap.Int("tools", len(w.tools.Load().Specs())))
	var offers, slots, queue sync.WaitGroup
	offers.Go(func() { w.advertise(ctx, idle) })
	for range w.cfg.Slots {
		slots.Go(func() { w.serve(ctx, outlast, stopping) })
	}

	<-ctx.Done()
	w.log.Info("worker draining", zap.Duration("timeout", w.cfg.DrainTimeout))
	drained := time.AfterFunc(w.cfg.DrainTimeout, func() { stop(ErrStopped) })
	defer drained.Stop()
	settled := time.AfterFunc(w.cfg.DrainTimeout+toolGrace+settleTimeout, func() { giveUp(ErrStopped) })
	defer settled.Stop()
	queue.Go(func() { w.closeQueue(outlast) }) // while calls finish
	slots.Wait()
	rest()
	offers.Wait()
	queue.Wait()
	w.log.Info("worker stopped")
	return nil
}

func (w *Worker) closeQueue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := w.cfg.Queue.Close(ctx); err != nil {
		w.log.Warn("queue not closed", zap.Error(err)) // a task may have to wait for its lease
	}
}

// Ready returns nil while the worker can get tasks, and otherwise the reason. The worker keeps
// trying.
func (w *Worker) Ready() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// serve is one slot: one claim at a time until ctx ends. Claims continue under outlast.
func (w *Worker) serve(ctx, outlast, stopping context.Context) {
	var pause backoff
	for {
		c, err := w.cfg.Queue.Claim(ctx)
		switch {
		case err == nil:
			pause = 0
			if w.trouble.Swap(nil) != nil {
				w.log.Info("queue delivers tasks again")
			}
			w.running.Add(1)
			w.handle(outlast, stopping, c)
			w.running.Add(-1)
		case ctx.Err() != nil:
			return
		case errors.Is(err, task.ErrForged): // it is not on the queue any more
			w.log.Warn("task is forged", zap.Error(err))
			w.cfg.Observer.Forged()
		default:
			if w.trouble.Swap(&err) == nil { // the other slots have the same trouble
				w.log.Warn("queue delivers no tasks", zap.Error(err))
			}
			if !pause.wait(ctx) {
				return
			}
		}
	}
}

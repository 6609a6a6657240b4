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
	Queue  task.Queue    // where its tasks come from; closed when Run drains
	Tools  []tool.Source // what it runs; a name that two of them offer is the first one's
	Logger *zap.Logger

	Slots          int           // calls at a time; 0: four for each CPU
	DefaultTimeout time.Duration // of a call for which neither task nor tool sets one; 0: 2 min
	DrainTimeout   time.Duration // how long running calls may go on once Run is to end; 0: 10 s

	// Permissions judge each call once more, just before its tool runs: here is what
	// a path leads to. What they ask for comes back as a question. Nil: nothing more is
	// asked than the session's node did.
	Permissions tool.Permissions
	// Root is what the paths are relative to of what a session's agent says that its calls
	// may do, see permission.Policy; "": the working directory.
	Root string

	Resources  any               // what it shares with its tools
	Middleware []tool.Middleware // stands around every call of a tool, the first outermost
	Invoker    tool.Invoker      // how tools are run; OnPanic is called beside the log, OnGate not at all

	Offers         Offers        // where it advertises its tools; nil: nowhere
	AdvertiseEvery time.Duration // how often; 0: 3 s

	// Progress passes on what a running tool says of itself, for each call as often as
	// Invoker allows, always including the last update. Nil: progress is dropped.
	Progress func(t task.Task, text string, share float64)
	// Observer receives the events of tasks; may be nil.
	Observer Observer
}

const (
	slotsPerCPU           = 4
	defaultTimeout        = 2 * time.Minute
	defaultDrainTimeout   = 10 * time.Second
	defaultAdvertiseEvery = 3 * time.Second

	// settleTimeout is how long reports may take after the drain.
	settleTimeout = 15 * time.Second
)

func (c Config) withDefaults() Config {
	c.Slots = cmp.Or(c.Slots, slotsPerCPU*runtime.NumCPU())
	c.Root = cmp.Or(c.Root, ".")
	c.DefaultTimeout = cmp.Or(c.DefaultTimeout, defaultTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.AdvertiseEvery = cmp.Or(c.AdvertiseEvery, defaultAdvertiseEvery)
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
		return errors.New("new worker: no logger: pass zap.NewNop() for silence")
	case c.Slots < 0:
		return fmt.Errorf("new worker: %d slots: use 1 or more, or 0 for %d per CPU", c.Slots, slotsPerCPU)
	case c.DefaultTimeout < 0 || c.DrainTimeout < 0 || c.AdvertiseEvery < 0:
		return fmt.Errorf("new worker: default timeout %v, drain timeout %v, advertising every %v: none may be negative",
			c.DefaultTimeout, c.DrainTimeout, c.AdvertiseEvery)
	}
	return nil
}

// ErrStopped is the cause that a tool's context ends with when the worker stops
// and the call was not done within the drain timeout.
var ErrStopped = errors.New("worker stopped")

// Worker claims tasks and runs them. Its methods are safe for concurrent use.
type Worker struct {
	cfg     Config
	log     *zap.Logger
	tools   toolCache
	trouble atomic.Pointer[error] // why it gets no tasks
}

// New returns a worker that has not started. It returns an error for an invalid Config.
func New(cfg Config) (*Worker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	log := cfg.Logger.Named("worker").With(logfield.Queue(cfg.Queue.Name()))
	return &Worker{cfg: cfg, log: log, tools: toolCache{sources: cfg.Tools}}, nil
}

// Run claims and runs tasks until ctx ends, then drains and returns nil. It
// returns an error, and has done nothing, if the tools cannot be listed. A worker
// runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.tools.refresh(ctx); err != nil {
		return fmt.Errorf("worker of queue %s: %w", w.cfg.Queue.Name(), err)
	}
	outlast, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	stopping := make(chan struct{}) // closed when calls are to end

	w.log.Info("worker started", zap.Int("slots", w.cfg.Slots), zap.Int("tools", len(w.tools.specs())))
	var offers, slots, queue sync.WaitGroup
	offers.Go(func() { w.advertise(ctx) })
	for range w.cfg.Slots {
		slots.Go(func() { w.serve(ctx, outlast, stopping) })
	}

	<-ctx.Done()
	w.log.Info("worker draining", zap.Duration("timeout", w.cfg.DrainTimeout))
	drained := time.AfterFunc(w.cfg.DrainTimeout, func() { close(stopping) })
	defer drained.Stop()
	settled := time.AfterFunc(w.cfg.DrainTimeout+w.grace()+settleTimeout, func() { giveUp(ErrStopped) })
	defer settled.Stop()
	queue.Go(func() { w.closeQueue(outlast) }) // while calls finish
	slots.Wait()
	offers.Wait()
	queue.Wait()
	w.log.Info("worker stopped")
	return nil
}

// closeTimeout bounds the withdrawal of pending requests to the queue.
const closeTimeout = 2 * time.Second

func (w *Worker) closeQueue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := w.cfg.Queue.Close(ctx); err != nil {
		w.log.Warn("queue not closed", zap.Error(err)) // a task may wait for its lease now
	}
}

// grace is how long a tool may go on after it was told to stop.
func (w *Worker) grace() time.Duration { return cmp.Or(w.cfg.Invoker.Grace, 5*time.Second) }

// Ready returns nil while the worker can get tasks, and otherwise why it gets
// none; it keeps trying.
func (w *Worker) Ready() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// serve is one slot: one claim at a time until ctx ends. Claims continue under outlast.
func (w *Worker) serve(ctx, outlast context.Context, stopping <-chan struct{}) {
	var pause backoff
	for {
		c, err := w.cfg.Queue.Claim(ctx)
		switch {
		case err == nil:
			pause = backoff{}
			w.claimsAgain()
			w.handle(outlast, c, stopping)
		case ctx.Err() != nil:
			return
		default:
			w.cannotClaim(err)
			if !pause.wait(ctx) {
				return
			}
		}
	}
}

// cannotClaim records why there are no tasks; only the first slot logs it.
func (w *Worker) cannotClaim(err error) {
	if w.trouble.Swap(&err) == nil {
		w.log.Warn("queue gives no tasks", zap.Error(err))
	}
}

func (w *Worker) claimsAgain() {
	if w.trouble.Swap(nil) != nil {
		w.log.Info("queue gives tasks again")
	}
}

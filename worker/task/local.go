package task

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/turnlog/turnlog/tool"
)

// LocalQueue names the queue of a node's own tools. A queue of a deployment cannot have that name,
// so no worker elsewhere can claim its tasks.
const LocalQueue = "node.local"

// Local is the queue between a node and a worker in the same process. Its tasks are stored nowhere and end
// with the process. It also takes the worker's offers.
//
// It is safe for concurrent use. Its host must run a worker on it.
type Local struct {
	tasks   chan *localClaim // unbuffered: a task that was taken is running
	changed chan struct{}    // holds one
	ready   chan struct{}
	readied sync.Once

	closing sync.Once
	closed  chan struct{}

	memory *semaphore.Weighted // for calls with large arguments

	mu    sync.Mutex
	specs []tool.Spec // nil: none were offered yet
}

var _ Queue = (*Local)(nil)

// NewLocal returns an empty queue.
func NewLocal() *Local {
	return &Local{
		tasks: make(chan *localClaim), changed: make(chan struct{}, 1), ready: make(chan struct{}), closed: make(chan struct{}),
		memory: semaphore.NewWeighted(CallMemory),
	}
}

// largeInput is the size from which arguments count against CallMemory.
const largeInput = 64 << 10

// Run waits until the worker has ended the task, and returns its report. When ctx ends, the call is
// canceled. Run returns ErrClosed if the worker stopped before it took the task, or released it.
func (l *Local) Run(ctx context.Context, t Task) (Report, error) {
	if size := int64(len(t.Input)); size > largeInput {
		if err := l.memory.Acquire(ctx, MemoryOf(size)); err != nil {
			return Report{}, context.Cause(ctx)
		}
		defer l.memory.Release(MemoryOf(size))
	}
	c := &localClaim{task: t, ended: make(chan end, 1)}
	select {
	case l.tasks <- c:
	case <-l.closed:
		return Report{}, ErrClosed
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	select {
	case e := <-c.ended:
		return e.report, e.err
	case <-ctx.Done():
	}
	c.cancel(fmt.Sprint(context.Cause(ctx)))
	e := <-c.ended // a worker ends every claim: it abandons a tool that does not return
	return e.report, e.err
}

// Name returns LocalQueue.
func (l *Local) Name() string { return LocalQueue }

// Claim waits for a task.
func (l *Local) Claim(ctx context.Context) (Claim, error) {
	select {
	case c := <-l.tasks:
		return c, nil
	case <-l.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close refuses further tasks.
func (l *Local) Close(context.Context) error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

// Advertise sets the tools that the node offers.
func (l *Local) Advertise(_ context.Context, o Offer) error {
	l.offer(slices.Clone(o.Tools))
	l.readied.Do(func() { close(l.ready) })
	return nil
}

// Withdraw removes the offer.
func (l *Local) Withdraw(context.Context) error {
	l.offer(nil)
	return nil
}

func (l *Local) offer(tools []tool.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.specs = tools
	select {
	case l.changed <- struct{}{}:
	default: // it is signaled already
	}
}

// Offered returns the tools that are offered.
func (l *Local) Offered() []tool.Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.specs
}

// Changed receives after the tools were advertised again. It has one reader.
func (l *Local) Changed() <-chan struct{} { return l.changed }

// Ready is closed when the tools were first advertised.
func (l *Local) Ready() <-chan struct{} { return l.ready }

// localLease is the lease of a claim that is never lost. It only determines how often the worker renews it.
const localLease = 24 * time.Hour

// localClaim is a task that the worker of this process runs. It ends with its report, or when it is
// released.
type localClaim struct {
	task  Task
	ended chan end // has room for the only one

	mu       sync.Mutex // guards the rest
	reason   string     // of the cancel; "": none
	onCancel func(reason string)
}

type end struct {
	report Report
	err    error
}

var _ Claim = (*localClaim)(nil)

func (c *localClaim) Task() Task                    { return c.task }
func (*localClaim) Delivery() int                   { return 1 }
func (*localClaim) Lease() time.Duration            { return localLease }
func (*localClaim) Extend(context.Context) error    { return nil }
func (*localClaim) Begin(context.Context) error     { return nil }
func (*localClaim) Unbegin(context.Context) error   { return nil }
func (*localClaim) Done(context.Context) error      { return nil }
func (c *localClaim) Release(context.Context) error { return c.end(end{err: ErrClosed}) }

func (c *localClaim) Report(_ context.Context, r Report) error { return c.end(end{report: r}) }

// OnCancel registers what stops the call.
func (c *localClaim) OnCancel(stop func(reason string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onCancel = stop
	if c.reason != "" {
		stop(c.reason)
	}
}

func (c *localClaim) cancel(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reason = reason
	if c.onCancel != nil {
		c.onCancel(reason)
	}
}

func (c *localClaim) end(e end) error {
	select {
	case c.ended <- e:
	default: // a worker may report twice
	}
	return nil
}

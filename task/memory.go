package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Memory keeps the contract of queues inside the process: for hosts without a
// server and for tests. Leases run on the clock of package time, so in a bubble
// of testing/synctest they run on the bubble's. Nothing outlives the process.
type Memory struct {
	lease  time.Duration
	report func(context.Context, Report) error

	mu     sync.Mutex
	queues map[string]*MemoryQueue
}

var (
	_ Dispatcher = (*Memory)(nil)
	_ Queue      = (*MemoryQueue)(nil)
	_ Claim      = (*memoryClaim)(nil)
)

// NewMemory returns queues whose claims last for lease without Extend, and whose
// workers' reports go to report. A lease of 0 is 30 seconds.
func NewMemory(lease time.Duration, report func(context.Context, Report) error) *Memory {
	return &Memory{
		lease:  cmp.Or(lease, 30*time.Second),
		report: report,
		queues: make(map[string]*MemoryQueue),
	}
}

// Queue returns the worker's side of the named queue, which comes to be with its
// first use.
func (m *Memory) Queue(name string) *MemoryQueue {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[name]
	if q == nil {
		q = &MemoryQueue{name: name, memory: m}
		m.queues[name] = q
	}
	return q
}

// Dispatch puts t on its queue. It returns ErrQueued if the place is there with
// the same attempt or a later one; an earlier attempt is over and makes room.
func (m *Memory) Dispatch(ctx context.Context, t Task) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dispatch %s/%s: %w", t.Session, t.Place, context.Cause(ctx))
	}
	q := m.Queue(t.Queue)
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := q.find(t.Session, t.Place); old != nil {
		if old.task.Attempt >= t.Attempt {
			return ErrQueued
		}
		q.remove(old)
	}
	j := &memoryJob{task: t}
	q.jobs = append(q.jobs, j)
	q.ready = append(q.ready, j)
	q.match()
	return nil
}

// Queued reports whether the place is on the queue, waiting or running.
func (m *Memory) Queued(_ context.Context, queue string, s content.SessionID, p content.Place) (bool, error) {
	q := m.Queue(queue)
	m.mu.Lock()
	defer m.mu.Unlock()
	return q.find(s, p) != nil, nil
}

// Cancel tells whoever runs the call to stop, and takes it off the queue if
// nobody does.
func (m *Memory) Cancel(_ context.Context, queue string, s content.SessionID, p content.Place, reason string) error {
	q := m.Queue(queue)
	m.mu.Lock()
	defer m.mu.Unlock()
	j := q.find(s, p)
	switch {
	case j == nil:
	case j.holder == nil:
		q.remove(j)
	default:
		j.holder.cancel(reason)
	}
	return nil
}

// MemoryQueue is the worker's side of one queue of a [Memory]. Everything in it
// is guarded by the Memory's lock.
type MemoryQueue struct {
	name   string
	memory *Memory

	jobs    []*memoryJob        // all of the queue, in order of dispatch
	ready   []*memoryJob        // those that nobody holds, in the order of handing out
	waiting []chan *memoryClaim // who waits in Claim, in order of arrival; each has room for one
}

// memoryJob is a task on its queue.
type memoryJob struct {
	task      Task
	delivered int
	holder    *memoryClaim // nil while the task waits
}

// Name returns the queue's name.
func (q *MemoryQueue) Name() string { return q.name }

// Claim waits for a task. It returns context.Cause(ctx) when ctx ends.
func (q *MemoryQueue) Claim(ctx context.Context) (Claim, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	mine := make(chan *memoryClaim, 1)
	q.memory.mu.Lock()
	q.waiting = append(q.waiting, mine)
	q.match()
	q.memory.mu.Unlock()
	select {
	case c := <-mine:
		return c, nil
	case <-ctx.Done():
		q.leave(mine)
		return nil, context.Cause(ctx)
	}
}

// leave takes a claimer that has gone out of the line. A task that it was handed
// in that instant goes back as if it had never been handed out.
func (q *MemoryQueue) leave(mine chan *memoryClaim) {
	q.memory.mu.Lock()
	defer q.memory.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(w chan *memoryClaim) bool { return w == mine })
	select {
	case c := <-mine:
		c.job.delivered--
		c.giveBack()
	default:
	}
}

// match hands what is ready to who waits.
func (q *MemoryQueue) match() {
	for len(q.ready) > 0 && len(q.waiting) > 0 {
		j, w := q.ready[0], q.waiting[0]
		q.ready, q.waiting = q.ready[1:], q.waiting[1:]
		j.delivered++
		c := &memoryClaim{
			queue: q, job: j, delivery: j.delivered, cancelled: make(chan struct{}),
			until: time.Now().Add(q.memory.lease),
		}
		c.lapse = time.AfterFunc(q.memory.lease, c.lapsed)
		j.holder = c
		w <- c
	}
}

func (q *MemoryQueue) find(s content.SessionID, p content.Place) *memoryJob {
	i := slices.IndexFunc(q.jobs, func(j *memoryJob) bool { return j.task.Session == s && j.task.Place == p })
	if i < 0 {
		return nil
	}
	return q.jobs[i]
}

// remove takes j off the queue; its holder, if any, has lost it.
func (q *MemoryQueue) remove(j *memoryJob) {
	same := func(o *memoryJob) bool { return o == j }
	q.jobs = slices.DeleteFunc(q.jobs, same)
	q.ready = slices.DeleteFunc(q.ready, same)
	if j.holder != nil {
		j.holder.lapse.Stop()
		j.holder = nil
	}
}

// memoryClaim is a job in a worker's hands for as long as the job says so.
type memoryClaim struct {
	queue    *MemoryQueue
	job      *memoryJob
	delivery int
	until    time.Time // end of the lease
	lapse    *time.Timer

	cancelled chan struct{}
	reason    string // set before cancelled is closed
}

func (c *memoryClaim) Task() Task { return c.job.task }

func (c *memoryClaim) Delivery() int { return c.delivery }

func (c *memoryClaim) Lease() time.Duration { return c.queue.memory.lease }

func (c *memoryClaim) Extend(context.Context) error {
	return c.held(func() {
		c.until = time.Now().Add(c.Lease())
		c.lapse.Reset(c.Lease())
	})
}

func (c *memoryClaim) Report(ctx context.Context, r Report) error {
	if err := c.queue.memory.report(ctx, r); err != nil {
		return fmt.Errorf("report %s/%s: %w", r.Session, r.Place, err)
	}
	return nil
}

func (c *memoryClaim) Done(context.Context) error {
	return c.held(func() { c.queue.remove(c.job) })
}

func (c *memoryClaim) Release(context.Context) error {
	return c.held(c.giveBack)
}

func (c *memoryClaim) Cancelled() <-chan struct{} { return c.cancelled }

func (c *memoryClaim) CancelReason() string {
	if !c.isCancelled() {
		return ""
	}
	return c.reason
}

// held does something with a job that is still this claim's.
func (c *memoryClaim) held(do func()) error {
	c.queue.memory.mu.Lock()
	defer c.queue.memory.mu.Unlock()
	if c.job.holder != c {
		return fmt.Errorf("claim of %s/%s: %w", c.job.task.Session, c.job.task.Place, ErrGone)
	}
	do()
	return nil
}

// lapsed runs when the lease may be over: another goroutine may have extended it
// or ended it while the timer fired.
func (c *memoryClaim) lapsed() {
	_ = c.held(func() {
		if !time.Now().Before(c.until) {
			c.giveBack()
		}
	})
}

// giveBack puts the job in front of the line, or off the queue if it was
// cancelled: nobody runs it any more.
func (c *memoryClaim) giveBack() {
	c.lapse.Stop()
	c.job.holder = nil
	if c.isCancelled() {
		c.queue.remove(c.job)
		return
	}
	c.queue.ready = slices.Insert(c.queue.ready, 0, c.job)
	c.queue.match()
}

func (c *memoryClaim) isCancelled() bool {
	select {
	case <-c.cancelled:
		return true
	default:
		return false
	}
}

func (c *memoryClaim) cancel(reason string) {
	if !c.isCancelled() {
		c.reason = reason
		close(c.cancelled)
	}
}

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

	mu    sync.Mutex
	lines map[string]*line // by the queue's name
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
		lines:  make(map[string]*line),
	}
}

// Queue returns a worker's side of the named queue, which comes to be with its
// first use.
func (m *Memory) Queue(name string) *MemoryQueue {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &MemoryQueue{line: m.line(name)}
}

func (m *Memory) line(name string) *line {
	l := m.lines[name]
	if l == nil {
		l = &line{name: name, memory: m}
		m.lines[name] = l
	}
	return l
}

// Dispatch puts t on its queue, replacing an earlier dispatch of the call. It
// returns ErrQueued if t or a task that supersedes it is there.
func (m *Memory) Dispatch(ctx context.Context, t Task) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dispatch %s/%s: %w", t.Session, t.Place, context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.line(t.Queue)
	if old := l.find(t.Session, t.Place); old != nil {
		if !t.Supersedes(old.task) {
			return ErrQueued
		}
		l.remove(old)
	}
	j := &memoryJob{task: t}
	l.jobs = append(l.jobs, j)
	l.ready = append(l.ready, j)
	l.match()
	return nil
}

// Queued reports whether t, or one that supersedes it, is on the queue, waiting or
// running.
func (m *Memory) Queued(_ context.Context, t Task) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.line(t.Queue).find(t.Session, t.Place)
	return j != nil && !t.Supersedes(j.task), nil
}

// Cancel tells the worker that runs the call to stop, and removes it from the queue if none does.
func (m *Memory) Cancel(_ context.Context, queue string, s content.SessionID, p content.Place, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.line(queue)
	j := l.find(s, p)
	switch {
	case j == nil:
	case j.holder == nil:
		l.remove(j)
	default:
		j.holder.cancel(reason)
	}
	return nil
}

// MemoryQueue is one worker's side of a queue of a [Memory]. What it holds is
// guarded by the Memory's lock.
type MemoryQueue struct {
	line   *line
	closed bool
}

// line is a queue as all its workers see it, guarded by the Memory's lock.
type line struct {
	name   string
	memory *Memory

	jobs    []*memoryJob // all of the queue, in order of dispatch
	ready   []*memoryJob // those without a holder, in order of delivery
	waiting []waiter     // waiting Claims, in order of arrival
}

// waiter is a Claim that waits.
type waiter struct {
	queue *MemoryQueue
	claim chan *memoryClaim // has room for one; closed with the queue
}

// memoryJob is a task on its queue.
type memoryJob struct {
	task      Task
	delivered int
	holder    *memoryClaim // nil while the task waits
}

// Name returns the queue's name.
func (q *MemoryQueue) Name() string { return q.line.name }

// Claim waits for a task. It returns context.Cause(ctx) when ctx ends, and
// ErrClosed when the queue is closed.
func (q *MemoryQueue) Claim(ctx context.Context) (Claim, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	mine, err := q.wait()
	if err != nil {
		return nil, err
	}
	select {
	case c, ok := <-mine:
		if !ok {
			return nil, fmt.Errorf("claim from %s: %w", q.line.name, ErrClosed)
		}
		return c, nil
	case <-ctx.Done():
		q.leave(mine)
		return nil, context.Cause(ctx)
	}
}

func (q *MemoryQueue) wait() (chan *memoryClaim, error) {
	q.line.memory.mu.Lock()
	defer q.line.memory.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("claim from %s: %w", q.line.name, ErrClosed)
	}
	mine := make(chan *memoryClaim, 1)
	q.line.waiting = append(q.line.waiting, waiter{q, mine})
	q.line.match()
	return mine, nil
}

// Close ends every Claim of this side that waits.
func (q *MemoryQueue) Close(context.Context) error {
	q.line.memory.mu.Lock()
	defer q.line.memory.mu.Unlock()
	q.closed = true
	q.line.waiting = slices.DeleteFunc(q.line.waiting, func(w waiter) bool {
		if w.queue == q {
			close(w.claim)
		}
		return w.queue == q
	})
	return nil
}

// leave takes a claimer that has gone out of the line. A task that it was handed
// in that instant goes back as if it had never been handed out.
func (q *MemoryQueue) leave(mine chan *memoryClaim) {
	q.line.memory.mu.Lock()
	defer q.line.memory.mu.Unlock()
	q.line.waiting = slices.DeleteFunc(q.line.waiting, func(w waiter) bool { return w.claim == mine })
	select {
	case c, ok := <-mine:
		if ok {
			c.job.delivered--
			c.giveBack()
		}
	default:
	}
}

// match hands what is ready to who waits.
func (l *line) match() {
	for len(l.ready) > 0 && len(l.waiting) > 0 {
		j, w := l.ready[0], l.waiting[0]
		l.ready, l.waiting = l.ready[1:], l.waiting[1:]
		j.delivered++
		c := &memoryClaim{
			line: l, job: j, delivery: j.delivered, cancelled: make(chan struct{}),
			until: time.Now().Add(l.memory.lease),
		}
		c.lapse = time.AfterFunc(l.memory.lease, c.lapsed)
		j.holder = c
		w.claim <- c
	}
}

func (l *line) find(s content.SessionID, p content.Place) *memoryJob {
	i := slices.IndexFunc(l.jobs, func(j *memoryJob) bool { return j.task.Session == s && j.task.Place == p })
	if i < 0 {
		return nil
	}
	return l.jobs[i]
}

// remove takes j off the queue; its holder, if any, has lost it.
func (l *line) remove(j *memoryJob) {
	same := func(o *memoryJob) bool { return o == j }
	l.jobs = slices.DeleteFunc(l.jobs, same)
	l.ready = slices.DeleteFunc(l.ready, same)
	if j.holder != nil {
		j.holder.lapse.Stop()
		j.holder = nil
	}
}

// memoryClaim is a job in a worker's hands for as long as the job says so.
type memoryClaim struct {
	line     *line
	job      *memoryJob
	delivery int
	until    time.Time // end of the lease
	lapse    *time.Timer

	cancelled chan struct{}
	reason    string // set before cancelled is closed
}

func (c *memoryClaim) Task() Task { return c.job.task }

func (c *memoryClaim) Delivery() int { return c.delivery }

func (c *memoryClaim) Lease() time.Duration { return c.line.memory.lease }

func (c *memoryClaim) Extend(context.Context) error {
	return c.held(func() {
		c.until = time.Now().Add(c.Lease())
		c.lapse.Reset(c.Lease())
	})
}

func (c *memoryClaim) Report(ctx context.Context, r Report) error {
	if err := c.line.memory.report(ctx, r); err != nil {
		return fmt.Errorf("report %s/%s: %w", r.Session, r.Place, err)
	}
	return nil
}

func (c *memoryClaim) Done(context.Context) error {
	return c.held(func() { c.line.remove(c.job) })
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
	c.line.memory.mu.Lock()
	defer c.line.memory.mu.Unlock()
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
// cancelled: it has no worker any more.
func (c *memoryClaim) giveBack() {
	c.lapse.Stop()
	c.job.holder = nil
	if c.isCancelled() {
		c.line.remove(c.job)
		return
	}
	c.line.ready = slices.Insert(c.line.ready, 0, c.job)
	c.line.match()
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

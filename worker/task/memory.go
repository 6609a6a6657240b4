package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Memory implements the contract of queues in process, for hosts without a server and for
// tests. Leases use package time, so in a testing/synctest bubble they run on virtual time.
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

// line is a queue as all its workers see it, guarded by the Memory's lock.
type line struct {
	jobs    []*memoryJob  // in order of dispatch
	changed chan struct{} // closed and replaced when a waiting Claim should look again
}

// memoryJob is a task on its queue.
type memoryJob struct {
	task      Task
	delivered int
	holder    *memoryClaim // nil while the task waits
}

// NewMemory returns queues whose claims last for lease without Extend. Workers' reports go to
// report. A lease of 0 is 30 seconds.
func NewMemory(lease time.Duration, report func(context.Context, Report) error) *Memory {
	return &Memory{lease: cmp.Or(lease, 30*time.Second), report: report, lines: make(map[string]*line)}
}

// Queue returns a worker's side of the named queue, which is created by its first use.
func (m *Memory) Queue(name string) *MemoryQueue {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &MemoryQueue{name: name, memory: m, line: m.line(name)}
}

func (m *Memory) line(name string) *line {
	l := m.lines[name]
	if l == nil {
		l = &line{changed: make(chan struct{})}
		m.lines[name] = l
	}
	return l
}

// Dispatch puts t on its queue, replacing an earlier dispatch of the call. It returns ErrQueued
// if t or a task that supersedes it is there.
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
	l.jobs = append(l.jobs, &memoryJob{task: t})
	l.wake()
	return nil
}

// Queued reports whether t, or a task that supersedes it, is on the queue, waiting or running.
func (m *Memory) Queued(_ context.Context, t Task) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.line(t.Queue).find(t.Session, t.Place)
	return j != nil && !t.Supersedes(j.task), nil
}

// Cancel stops the worker that runs the call. If none does, it removes the call from the queue.
func (m *Memory) Cancel(_ context.Context, queue string, s content.SessionID, p content.Place, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.line(queue)
	switch j := l.find(s, p); {
	case j == nil:
	case j.holder == nil:
		l.remove(j)
	default:
		j.holder.cancel(errors.New(reason))
	}
	return nil
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
	l.jobs = slices.DeleteFunc(l.jobs, func(o *memoryJob) bool { return o == j })
	if j.holder != nil {
		j.holder.expiry.Stop()
		j.holder = nil
	}
}

// wake lets the waiting Claims look again.
func (l *line) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// MemoryQueue is one worker's side of a queue of a [Memory], guarded by the Memory's lock.
type MemoryQueue struct {
	name   string
	memory *Memory
	line   *line
	closed bool
}

// Name returns the queue's name.
func (q *MemoryQueue) Name() string { return q.name }

// Claim waits for a task. It returns context.Cause(ctx) when ctx ends, and ErrClosed when the
// queue is closed.
func (q *MemoryQueue) Claim(ctx context.Context) (Claim, error) {
	for ctx.Err() == nil {
		c, changed, err := q.claim()
		if err != nil {
			return nil, err
		}
		if c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// claim takes the first waiting task. If there is none, it returns a channel to wait on.
func (q *MemoryQueue) claim() (c *memoryClaim, changed <-chan struct{}, err error) {
	q.memory.mu.Lock()
	defer q.memory.mu.Unlock()
	if q.closed {
		return nil, nil, fmt.Errorf("claim from %s: %w", q.name, ErrClosed)
	}
	i := slices.IndexFunc(q.line.jobs, func(j *memoryJob) bool { return j.holder == nil })
	if i < 0 {
		return nil, q.line.changed, nil
	}
	j, lease := q.line.jobs[i], q.memory.lease
	j.delivered++
	c = &memoryClaim{memory: q.memory, line: q.line, job: j, delivery: j.delivered, until: time.Now().Add(lease)}
	c.cancelled, c.cancel = context.WithCancelCause(context.Background())
	c.expiry = time.AfterFunc(lease, c.expire)
	j.holder = c
	return c, nil, nil
}

// Close ends the waiting Claims of this side.
func (q *MemoryQueue) Close(context.Context) error {
	q.memory.mu.Lock()
	defer q.memory.mu.Unlock()
	q.closed = true
	q.line.wake()
	return nil
}

// memoryClaim is a worker's claim of a job, valid while it is the job's holder.
type memoryClaim struct {
	memory   *Memory
	line     *line
	job      *memoryJob
	delivery int
	until    time.Time // end of the lease
	expiry   *time.Timer

	cancelled context.Context //nolint:containedctx // ends with the call's cancel, whose reason is its cause
	cancel    context.CancelCauseFunc
}

func (c *memoryClaim) Task() Task { return c.job.task }

func (c *memoryClaim) Delivery() int { return c.delivery }

func (c *memoryClaim) Lease() time.Duration { return c.memory.lease }

func (c *memoryClaim) Extend(context.Context) error {
	return c.held(func() {
		c.until = time.Now().Add(c.Lease())
		c.expiry.Reset(c.Lease())
	})
}

func (c *memoryClaim) Report(ctx context.Context, r Report) error {
	if err := c.memory.report(ctx, r); err != nil {
		return fmt.Errorf("report %s/%s: %w", r.Session, r.Place, err)
	}
	return nil
}

func (c *memoryClaim) Done(context.Context) error { return c.held(func() { c.line.remove(c.job) }) }

func (c *memoryClaim) Release(context.Context) error { return c.held(c.giveBack) }

func (c *memoryClaim) Cancelled() <-chan struct{} { return c.cancelled.Done() }

func (c *memoryClaim) CancelReason() string {
	if err := context.Cause(c.cancelled); err != nil {
		return err.Error()
	}
	return ""
}

// held calls do if this claim still holds its job.
func (c *memoryClaim) held(do func()) error {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if c.job.holder != c {
		return fmt.Errorf("claim of %s/%s: %w", c.job.task.Session, c.job.task.Place, ErrGone)
	}
	do()
	return nil
}

// expire runs when the lease may have expired. Extend may have won the race with the timer.
func (c *memoryClaim) expire() {
	_ = c.held(func() {
		if !time.Now().Before(c.until) {
			c.giveBack()
		}
	})
}

// giveBack lets another worker have the job. A cancelled job leaves the queue.
func (c *memoryClaim) giveBack() {
	c.expiry.Stop()
	c.job.holder = nil
	if c.cancelled.Err() != nil {
		c.line.remove(c.job)
	}
	c.line.wake()
}

package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/worker/task"
)

// claim is a task that a worker of this process holds.
//
// The server confirms whatever a holder says, also one whose lease has lapsed, so
// the lease is kept here, by the monotonic clock and counted from before each
// renewal was sent: once it is over the claim is gone, whether or not another
// worker has the task already.
type claim struct {
	queue    *Queue
	task     task.Task
	reply    string
	seq      uint64 // of the task in its stream
	delivery int

	mu    sync.Mutex
	until time.Time // end of the lease

	cancelled chan struct{}
	reason    string // set before cancelled is closed, under the queue's lock
}

var _ task.Claim = (*claim)(nil)

func (c *claim) Task() task.Task { return c.task }

func (c *claim) Delivery() int { return c.delivery }

func (c *claim) Lease() time.Duration { return c.queue.lease }

// Extend renews the lease and waits for the server's word.
func (c *claim) Extend(ctx context.Context) error {
	if err := c.check("extend"); err != nil {
		return err
	}
	now := time.Now()
	if err := c.queue.cell.answer(ctx, c.reply, answerProgress); err != nil {
		return c.wrap("extend", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = now.Add(c.queue.lease)
	return nil
}

// Report sends what became of the attempt into the session's inbox. It does not
// look at the lease: what a worker found out is worth telling, and the core knows
// what to do with a report that comes late or twice.
func (c *claim) Report(ctx context.Context, r task.Report) error {
	if _, err := c.queue.inbox.SendReport(ctx, envelopeOf(r, c.task), c.task.Ticket); err != nil {
		return c.wrap("report", err)
	}
	if r.Wake || c.task.Wake {
		c.queue.runs.WakeSoon(r.Session)
	}
	return nil
}

// envelopeOf makes the command that brings a report. Its id is computed from the
// attempt, so a repeated report is recognised.
func envelopeOf(r task.Report, x task.Task) commands.Envelope {
	attempt := string(r.Place) + "/" + strconv.Itoa(r.Attempt)
	env := commands.Envelope{
		ID: "result/" + attempt, Session: r.Session, TraceParent: x.TraceParent,
		Command: commands.ReportResult{Place: r.Place, Attempt: r.Attempt, Queue: r.Queue, Outcome: r.Outcome},
	}
	switch {
	case r.Gate != nil: // another one may follow when this one is approved
		env.ID = "gate/" + attempt + "/" + strconv.Itoa(len(x.Approved))
		gates := commands.GatesOf(*r.Gate)
		env.Command = commands.ReportGate{Place: r.Place, Attempt: r.Attempt, N: len(x.Approved), Gate: gates[0], Also: gates[1:]}
	case r.Lost:
		env.ID = "lost/" + attempt
		env.Command = commands.ReportAttemptLost{Place: r.Place, Attempt: r.Attempt, Queue: r.Queue, Reason: r.Reason}
	}
	return env
}

// Done takes the task off the queue and waits for the server's word.
func (c *claim) Done(ctx context.Context) error {
	if err := c.check("done"); err != nil {
		return err
	}
	if err := c.queue.cell.confirm(ctx, c.reply, answerAck); err != nil {
		return c.wrap("done", err)
	}
	c.queue.drop(c)
	return nil
}

// Release hands the task back. It is tried once: a second attempt might take it
// from the next worker.
func (c *claim) Release(ctx context.Context) error {
	if err := c.check("release"); err != nil {
		return err
	}
	c.queue.drop(c)
	if err := c.queue.cell.answer(ctx, c.reply, answerNak); err != nil {
		return c.wrap("release", err)
	}
	return nil
}

func (c *claim) Cancelled() <-chan struct{} { return c.cancelled }

func (c *claim) CancelReason() string {
	select {
	case <-c.cancelled:
		return c.reason
	default:
		return ""
	}
}

// cancel tells the holder to stop, once. The queue's lock is held.
func (c *claim) cancel(reason string) {
	select {
	case <-c.cancelled:
	default:
		c.reason = reason
		close(c.cancelled)
	}
}

// check returns task.ErrGone if the lease is over.
func (c *claim) check(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return nil
	}
	c.queue.drop(c)
	return c.wrap(what, task.ErrGone)
}

func (c *claim) wrap(what string, err error) error {
	return fmt.Errorf("%s %s/%s: %w", what, c.task.Session, c.task.Place, err)
}

// answer answers a delivered message, once, and waits until the server has heard
// it.
func (c *Cell) answer(ctx context.Context, reply, what string) error {
	ctx, done := c.answered(ctx, askTimeout, c.sending(reply))
	defer done()
	_, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: reply, Data: []byte(what)})
	return whyEnded(ctx, err)
}

// confirm is answer for as long as trying can help, which is harmless with all
// answers but a nak.
func (c *Cell) confirm(ctx context.Context, reply, what string) error {
	return promptly(ctx, func(ctx context.Context) error { return c.answer(ctx, reply, what) })
}

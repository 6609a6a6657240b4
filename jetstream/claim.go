package jetstream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// claim is a task that a worker of this process holds.
//
// The server confirms every answer of a holder, even after its lease expired. So the claim tracks its own
// lease on the monotonic clock, starting before each renewal is sent. When that lease expires, the claim is
// gone, even if no other worker has the task.
type claim struct {
	queue    *Queue
	task     task.Task
	reply    string // for answers to the queue; "": a direct call
	seq      uint64 // of the task in its stream
	node     string // that waits for the direct call; guarded by the queue's lock
	delivery int
	lease    time.Duration
	memory   int64 // the memory that the call may take; guarded by the queue's lock once the claim is held

	mu    sync.Mutex // guards the next group
	until time.Time  // end of the lease
	begun uint64     // the sequence of the record that the call began; 0: none

	secret string // secret of this claim, which no other claim has; "": the call has not begun

	// belong to the slot that holds the claim
	tried    bool // to report directly
	reported bool // the outcome was sent

	// guarded by the queue's lock
	canceled bool
	reason   string
	onCancel func(reason string)
}

var _ task.Claim = (*claim)(nil)

func (c *claim) Task() task.Task { return c.task }

func (c *claim) Delivery() int { return c.delivery }

func (c *claim) Lease() time.Duration { return c.lease }

// Extend renews the lease and waits until the server has confirmed that.
func (c *claim) Extend(ctx context.Context) error {
	if err := c.check("extend"); err != nil {
		return err
	}
	now := time.Now()
	if err := c.answer(ctx, true); err != nil {
		return c.wrap("extend", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = now.Add(c.lease)
	return nil
}

// Begin records, outside the streams of tasks and commands, that a call that must not run twice has begun.
// Those streams know that a worker got a task and finished it, but either of them may lose that.
func (c *claim) Begin(ctx context.Context) error {
	if err := c.check("begin"); err != nil || c.task.Effects.Retryable() {
		return err
	}
	seq, err := c.begin(ctx)
	if err != nil {
		return c.wrap("begin", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = seq
	return nil
}

func (c *claim) begin(ctx context.Context) (uint64, error) {
	secret := c.ownSecret()
	for last := uint64(0); ; {
		seq, err := c.queue.begun.Put(ctx, c.dispatch(), secret, last)
		if !api.IsConflict(err) {
			return seq, err
		}
		there, ok, err := c.queue.begun.Get(ctx, c.dispatch())
		switch {
		case err != nil:
			return 0, err
		case ok && there.Value != secret:
			return 0, task.ErrBegun
		case ok:
			return there.Seq, nil // stored by an attempt whose answer was lost
		}
		last = there.Seq // it was removed, or has expired
	}
}

// ownSecret returns the claim's secret, which stays the same.
func (c *claim) ownSecret() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secret == "" {
		c.secret = rand.Text()
	}
	return c.secret
}

// dispatch returns the key of this dispatch among the queue's begun calls.
func (c *claim) dispatch() string {
	x := c.task
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", x.Session, x.Place, x.Attempt, len(x.Approved)))
	return c.queue.name + "." + base64.RawURLEncoding.EncodeToString(id[:16])
}

// Unbegin removes the record of Begin.
func (c *claim) Unbegin(ctx context.Context) error {
	c.mu.Lock()
	last := c.begun
	c.mu.Unlock()
	if last == 0 {
		return nil
	}
	if err := c.queue.begun.Delete(ctx, c.dispatch(), last); err != nil && !api.IsConflict(err) {
		return c.wrap("unbegin", err)
	}
	return nil
}

// Report sends the outcome of the attempt to the session's inbox. It ignores the lease, because the core
// handles late and repeated reports. If an outcome is too large for a command, an error result is sent
// instead.
func (c *claim) Report(ctx context.Context, r task.Report) error {
	env := c.envelope(r)
	recorded, missed := c.reportDirectly(ctx, r, env)
	if recorded {
		return nil
	}
	_, err := c.queue.inbox.SendReport(ctx, env, c.task.Ticket)
	if errors.Is(err, ErrTooLarge) {
		failed := content.NewResult(r.Call, c.task.Tool, content.StatusError, "Tool failed: its result cannot be sent: "+err.Error())
		r.Outcome = tool.Result{Result: failed, Duration: r.Outcome.Duration, Usage: r.Outcome.Usage, Counts: r.Outcome.Counts}
		r.Question = nil
		_, err = c.queue.inbox.SendReport(ctx, c.envelope(r), c.task.Ticket)
	}
	if err != nil {
		return c.wrap("report", err)
	}
	c.reported = r.Question == nil
	if r.Wake || c.task.Wake || missed {
		c.queue.runs.WakeSoon(r.Session)
	}
	return nil
}

// reportDirectly gives an outcome to the session's driver, and reports whether the driver has recorded it, or
// did not answer: the session may have parked, if a person detached the call. It tries once.
func (c *claim) reportDirectly(ctx context.Context, r task.Report, env commands.Envelope) (recorded, missed bool) {
	if !c.task.Direct || c.tried || r.Question != nil || r.Lost || c.queue.directDenied.Load() {
		return false, false
	}
	recorded, err := c.queue.inbox.deliver(ctx, env, c.task.Ticket)
	if _, denied := Denied(err); denied {
		c.queue.directDenied.Store(true)
	}
	c.tried, c.reported = true, recorded
	return recorded, err != nil
}

// envelope returns the envelope of a report. A result is signed for the journal if the cell has a key,
// except that of a verifier, which has no call in the journal.
func (c *claim) envelope(r task.Report) commands.Envelope {
	id, command := CommandOf(r, c.task)
	if result, ok := command.(commands.ReportResult); ok && c.task.Tool != loop.VerifierTool {
		command = c.queue.cell.keys.Result(c.task, result)
	}
	return commands.Envelope{ID: id, Session: r.Session, TraceParent: c.task.TraceParent, Command: command}
}

// CommandOf returns the command for a report about a task. Its ID is derived from the attempt, so a
// repeated report is recognized.
func CommandOf(r task.Report, x task.Task) (id string, c commands.Command) {
	of := func(what string) string { return what + string(r.Place) + "/" + strconv.Itoa(r.Attempt) }
	switch {
	case r.Question != nil: // another question may follow if this one is approved
		all := commands.QuestionsOf(*r.Question)
		return of("gate/") + "/" + strconv.Itoa(len(x.Approved)),
			commands.ReportQuestion{Place: r.Place, Attempt: r.Attempt, N: len(x.Approved), Question: all[0], Also: all[1:]}
	case r.Lost:
		return of("lost/"), commands.ReportAttemptLost{Place: r.Place, Attempt: r.Attempt, Queue: r.Queue, Reason: r.Reason}
	}
	return of("result/"), commands.ReportResult{Place: r.Place, Attempt: r.Attempt, Queue: r.Queue, Outcome: r.Outcome}
}

// Done removes the task from the queue and waits for the server's confirmation. It does not wait for a call
// that has reported its outcome and may run again: if that acknowledgment is lost, the call runs again
// after its lease, and its second report has no effect.
func (c *claim) Done(ctx context.Context) (err error) {
	if err := c.check("done"); err != nil {
		return err
	}
	if c.isDirect() {
		c.queue.drop(c)
		return nil
	}
	if c.reported && c.task.Effects.Retryable() {
		err = c.queue.cell.nc.Publish(c.reply, []byte(api.Ack))
	} else {
		err = c.queue.cell.api.Confirm(ctx, c.reply, api.Ack)
	}
	if err != nil {
		return c.wrap("done", err)
	}
	c.queue.drop(c)
	return nil
}

// Release returns the task to the queue. It does not retry: a second attempt might take the task away from
// the next worker.
func (c *claim) Release(ctx context.Context) error {
	if err := c.check("release"); err != nil {
		return err
	}
	c.queue.drop(c)
	if err := c.answer(ctx, false); err != nil {
		return c.wrap("release", err)
	}
	return nil
}

// OnCancel sets the function that stops the call.
func (c *claim) OnCancel(stop func(reason string)) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.onCancel = stop
	if c.canceled {
		stop(c.reason)
	}
}

// cancel tells the holder to stop, once. The caller holds the queue's lock.
func (c *claim) cancel(reason string) {
	if c.canceled {
		return
	}
	c.canceled, c.reason = true, reason
	if c.onCancel != nil {
		c.onCancel(reason)
	}
}

// check returns task.ErrGone if the lease is over.
func (c *claim) check(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return nil
	}
	c.queue.drop(c)
	return c.wrap(op, task.ErrGone)
}

// wrap adds the operation to an error. A closed connection also ends the claim, so its worker need not try
// again.
func (c *claim) wrap(op string, err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = fmt.Errorf("%w: %w", task.ErrGone, err)
	}
	return fmt.Errorf("%s %s/%s: %w", op, c.task.Session, c.task.Place, err)
}

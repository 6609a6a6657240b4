package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/worker/task"
)

// Fences keep the tasks of a replaced driver from running.
//
// A publish may be stored long after it was sent, because its driver or the network froze. By then another
// driver may have dispatched the call again, and a worker may have finished it. So a driver that takes over a
// session with such calls sets a fence before it looks at the queues. From then on no task of an earlier epoch
// may start. A worker that gets one reports it to the session's inbox and only then removes it from the queue.
// See ADR 9.
//
// Workers read the fence only for tasks that were stored late, which saves a request for almost all tasks.
// No takeover is faster than lateAfter. If the clocks differ by more than that, workers always read the fence.
const (
	lateAfter = 100 * time.Millisecond
	fenceTTL  = 7 * 24 * time.Hour
)

// fence separates a session's workers from its earlier drivers.
type fence struct {
	Epoch uint64 `msgpack:"e"` // of the driver that set it
}

func (c *Cell) fences() bucket.Bucket[fence] {
	return bucket.OfValues[fence](c.api, "fence", c.names.Fences(), "", 1, fenceTTL)
}

// Fence keeps tasks that must not run twice from starting if drivers of earlier epochs dispatched
// them. A fence never moves back, even if a replaced driver sets one late.
func (t *Tasks) Fence(ctx context.Context, s content.SessionID, epoch uint64) error {
	for {
		there, _, err := t.cell.fences().Get(ctx, string(s))
		if err != nil || there.Value.Epoch >= epoch {
			return err
		}
		_, err = t.cell.fences().Put(ctx, string(s), fence{Epoch: epoch}, there.Seq)
		if !api.IsConflict(err) {
			return err
		}
	}
}

// TakeOff removes x from its queue if the task has this number, and reports whether x is not queued then.
func (t *Tasks) TakeOff(ctx context.Context, x task.Task, number uint64) (bool, error) {
	there, queued, err := t.look(ctx, x, t.cell.names.Task(x.Queue, x.Session, x.Place))
	if err == nil && queued && there == number {
		queued, err = false, t.remove(ctx, there)
	}
	if err != nil {
		return false, fmt.Errorf("remove task %s/%s from its queue: %w", x.Session, x.Place, err)
	}
	return !queued, nil
}

// isFenced reports whether a claim's task came from a replaced driver.
func (q *Queue) isFenced(ctx context.Context, c *claim, stored time.Time) (bool, error) {
	x := c.task
	if x.Effects.Retryable() || x.Epoch == 0 || stored.Sub(x.Decided.Std()).Abs() < lateAfter {
		return false, nil
	}
	f, _, err := q.cell.fences().Get(ctx, string(x.Session))
	return f.Value.Epoch > x.Epoch, err
}

// errFenced is returned for a fenced task. The session's driver dispatches the call again if it is
// still owed.
var errFenced = errors.New("task of a replaced driver")

// admit reports a fenced task to its session and removes the task from the queue. It returns errFenced
// then. After any other error the caller returns the task to the queue. A task that was delivered before
// may have run; its claimer reports that.
func (q *Queue) admit(ctx context.Context, c *claim, stored time.Time) error {
	if c.delivery > 1 {
		return nil
	}
	fenced, err := q.isFenced(ctx, c, stored)
	if err == nil && fenced {
		err = q.reportFenced(ctx, c)
	}
	if err != nil || !fenced {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), api.PublishTimeout)
	defer cancel()
	_ = q.cell.api.Confirm(ctx, c.reply, api.Term) // if this is lost, the driver removes the task
	return errFenced
}

// reportFenced tells the session's driver that a task will not run.
func (q *Queue) reportFenced(ctx context.Context, c *claim) error {
	x := c.task
	env := commands.Envelope{
		ID: fmt.Sprintf("overtaken/%s/%d/%d", x.Place, x.Attempt, c.seq), Session: x.Session, TraceParent: x.TraceParent,
		Command: commands.ReportOvertaken{Place: x.Place, Attempt: x.Attempt, Task: c.seq},
	}
	if _, err := q.inbox.SendReport(ctx, env, x.Ticket); err != nil {
		return err
	}
	q.runs.WakeSoon(x.Session)
	return nil
}

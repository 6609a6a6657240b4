package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

// Fences.
//
// A publish may be stored long after it was sent: the driver or its network was frozen. By then
// another driver may own the session, have found no task, have published the task itself, and
// its worker may be done. The late task then finds its subject free, and a call that must not
// run twice would. So a driver that takes over a session with such calls open sets a fence
// before it looks at the queues: after that, no task of an earlier epoch may start, whatever
// stored it and whenever. A worker that gets one reports it to the session's inbox, and only
// then removes it from the queue; the driver dispatches the call again if it still has to run.
// Until that report is handled the session cannot be released for good, and if the worker dies
// meanwhile, the task is redelivered or the driver removes it.
//
// A worker that removes a task would have to read the fence each time. It needs to only if the
// task was stored late: no takeover is faster than lateAfter, since an unanswered probe takes
// longer, and so does a new connection. The two times are of different clocks; where these
// differ by more, the worker always reads the fence.
const (
	lateAfter = 100 * time.Millisecond
	fenceTTL  = 7 * 24 * time.Hour
)

// fence separates a session's workers from its earlier drivers.
type fence struct {
	Epoch uint64 `msgpack:"e"` // of the driver that set it
}

func (c *Cell) fences() bucket[fence] {
	return valueBucket[fence](c, c.names.Catalog(), layout.FenceKeys, fenceTTL)
}

// Fence keeps tasks that must not run twice from starting, if drivers of the session's earlier
// epochs dispatched them. A fence never moves back: the fence of a replaced driver may come
// late, too.
func (t *Tasks) Fence(ctx context.Context, s content.SessionID, epoch uint64) error {
	for {
		there, _, err := t.cell.fences().get(ctx, string(s))
		if err != nil || there.Value.Epoch >= epoch {
			return err
		}
		_, err = t.cell.fences().swap(ctx, string(s), fence{Epoch: epoch}, there.Seq)
		if !api.IsConflict(err) {
			return err
		}
	}
}

// TakeOff removes the task with that number from its queue, if it is x, and reports whether
// neither it nor another dispatch of x is queued now.
func (t *Tasks) TakeOff(ctx context.Context, x task.Task, number uint64) (bool, error) {
	there, queued, err := t.look(ctx, x, t.cell.names.Task(x.Queue, x.Session, x.Place))
	if err == nil && queued && there == number {
		queued, err = false, t.remove(ctx, there)
	}
	if err != nil {
		return false, fmt.Errorf("take task %s/%s off its queue: %w", x.Session, x.Place, err)
	}
	return !queued, nil
}

// isFenced reports whether a claim is for a task of a driver that was replaced.
func (q *Queue) isFenced(ctx context.Context, c *claim, stored time.Time) (bool, error) {
	x := c.task
	if x.Effects.Retryable() || x.Epoch == 0 || stored.Sub(x.Decided.Std()).Abs() < lateAfter {
		return false, nil
	}
	f, _, err := q.cell.fences().get(ctx, string(x.Session))
	return f.Value.Epoch > x.Epoch, err
}

// errFenced is returned for a task that came too late to run: if the call still has to, the
// session's driver dispatches it again.
var errFenced = errors.New("task of a driver that was replaced")

// admit removes a fenced task from its queue, once its session's inbox says so. It returns the
// task if it cannot report it. A task that was delivered before may have run, which is for its
// claimer to report.
func (q *Queue) admit(ctx context.Context, c *claim, msg *nats.Msg, stored time.Time) error {
	if c.delivery > 1 {
		return nil
	}
	fenced, err := q.isFenced(ctx, c, stored)
	if err == nil && fenced {
		err = q.reportFenced(ctx, c)
	}
	if err != nil {
		q.giveBack(context.WithoutCancel(ctx), msg)
		return err
	}
	if !fenced {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), api.PublishTimeout)
	defer cancel()
	_ = q.cell.api.Confirm(ctx, c.reply, api.Term) // if it is lost, the driver removes the task
	return errFenced
}

// reportFenced tells the session's driver that a task was not run, and will not be.
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

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

// Fences.
//
// A publish may be stored long after it was sent: a driver was frozen, or its network
// was. By then another driver may have the session, have found no task, have published
// it itself, and its worker may be done. The late one then finds its subject free, and
// a call that must not run twice would. So a driver that takes a session over with such
// calls open puts up a fence, before it looks at the queues: no task of an earlier epoch
// begins behind it, wherever it comes from and whenever it was stored. Whoever gets one
// says so in the session's inbox, and only then takes it off its queue; the driver, if the
// call still has to run, dispatches it anew. Until that word is handled the session cannot be
// let go for good, and if the worker dies on its way, the task comes again or the driver
// takes it off.
//
// Whoever takes such a task off a queue would have to look for a fence each time. Only
// if it was stored late is there any need: nobody takes a session over within that
// time, since a probe that is not answered takes longer, and so does a new connection.
// The two times are of different clocks; where these differ more, it always looks.
const (
	late     = 100 * time.Millisecond
	fenceTTL = 7 * 24 * time.Hour
)

func fenceKey(s content.SessionID) string { return "fence." + string(s) }

// fence is what stands between a session's workers and its earlier drivers.
type fence struct {
	Epoch uint64 `msgpack:"e"` // of the driver that put it up
}

// Fence keeps tasks of drivers of the session's earlier epochs from being begun from now on,
// if they must not run twice. A fence never moves back: that of a replaced driver may come
// late too.
func (t *Tasks) Fence(ctx context.Context, s content.SessionID, epoch uint64) error {
	value, err := encodeValue(fence{Epoch: epoch})
	if err != nil {
		return fmt.Errorf("fence %s: %w", s, err)
	}
	for {
		there, last, err := t.cell.fenceOf(ctx, s)
		if err != nil || there.Epoch >= epoch {
			return err
		}
		msg := nats.NewMsg("")
		msg.Data = value
		msg.Header.Set(headerGuard, strconv.FormatUint(last, 10))
		msg.Header.Set(jetstream.MsgTTLHeader, fenceTTL.String())
		if err := t.cell.keyWrite(ctx, t.cell.names.catalogBucket(), fenceKey(s), msg); !isConflict(err) {
			return err
		}
	}
}

// TakeOff takes the task with that number off its queue, if it is x, and reports whether x
// is on no queue now: neither that one nor another dispatch of it.
func (t *Tasks) TakeOff(ctx context.Context, x task.Task, number uint64) (bool, error) {
	there, queued, err := t.look(ctx, x, t.cell.names.task(x.Queue, x.Session, x.Place))
	if err == nil && queued && there == number {
		queued, err = false, t.remove(ctx, there)
	}
	if err != nil {
		return false, fmt.Errorf("take task %s/%s off its queue: %w", x.Session, x.Place, err)
	}
	return !queued, nil
}

// fenceOf returns a session's fence, the zero one if there is none, and its place in the
// stream.
func (c *Cell) fenceOf(ctx context.Context, s content.SessionID) (f fence, seq uint64, err error) {
	m, err := c.leaderLast(ctx, kvStream(c.names.catalogBucket()), kvKey(c.names.catalogBucket(), fenceKey(s)))
	switch {
	case errors.Is(err, errNoMessage):
		return fence{}, 0, nil
	case err == nil && m.Aimed:
		err = errAimed
	case err == nil && !m.gone():
		err = unmarshal(m.Data, &f)
	}
	if err != nil {
		return fence{}, 0, fmt.Errorf("look for the fence of %s: %w", s, err)
	}
	return f, m.Seq, nil
}

// overtaken reports whether a claim is about a task of a driver that another one has
// replaced.
func (q *Queue) overtaken(ctx context.Context, c *claim, stored time.Time) (bool, error) {
	x := c.task
	if x.Effects.Retryable() || x.Epoch == 0 || stored.Sub(x.Decided.Std()).Abs() < late {
		return false, nil
	}
	f, _, err := q.cell.fenceOf(ctx, x.Session)
	return f.Epoch > x.Epoch, err
}

// errOvertaken says that a task came too late to be run: if it still has to be, the
// session's driver publishes it again.
var errOvertaken = errors.New("task of a driver that was replaced")

// admit takes a task off its queue that must not run any more, once its session's inbox says
// so. A task of which it cannot be told goes back. One that was handed out before may have
// been run, which is for whoever claims it to report.
func (q *Queue) admit(ctx context.Context, c *claim, msg *nats.Msg, stored time.Time) error {
	if c.delivery > 1 {
		return nil
	}
	over, err := q.overtaken(ctx, c, stored)
	if err == nil && over {
		err = q.tellOvertaken(ctx, c)
	}
	if err != nil {
		q.giveBack(context.WithoutCancel(ctx), msg)
		return err
	}
	if !over {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	_ = q.cell.confirm(ctx, c.reply, answerTerm) // unheard, its driver takes it off
	return errOvertaken
}

// tellOvertaken tells the session's driver that a task was not run, and will not be.
func (q *Queue) tellOvertaken(ctx context.Context, c *claim) error {
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

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/task"
)

// Fences.
//
// A publish may be stored long after it was sent: a driver was frozen, or its network
// was. By then another driver may have the session, have found no task, have published
// it itself, and its worker may be done. The late one then finds its subject free, and
// a call that must not run twice would. So a driver that takes a session over with such
// calls open puts up a fence, before it looks at the queues: tasks of earlier epochs
// that were stored behind it must not run. One that was stored before it is found.
//
// Whoever takes such a task off a queue would have to look for a fence each time. Only
// if it was stored late is there any need: nobody takes a session over within that
// time, since a probe that is not answered takes longer, and so does a new connection.
// The two times are of different clocks; where these differ more, it always looks.
const (
	late     = 100 * time.Millisecond
	fenceTTL = time.Hour
)

func fenceKey(s content.SessionID) string { return "fence." + string(s) }

// fence is what stands between a session's workers and its earlier drivers.
type fence struct {
	Epoch uint64   `msgpack:"e"`           // of the driver that put it up
	Let   []uint64 `msgpack:"l,omitempty"` // tasks of earlier ones that it found on their queues, by their place in the stream
}

// Fence keeps tasks from running that drivers of the session's earlier epochs publish
// from now on, if they must not run twice. Those that may are let through by their places
// in the stream; see Find. So a driver puts up a fence, looks, lets through what it found,
// and looks again: what is there then runs, and what is not is its own to publish. A fence
// never moves back: that of a replaced driver may come late too.
func (t *Tasks) Fence(ctx context.Context, s content.SessionID, epoch uint64, let ...uint64) error {
	value, err := encodeValue(fence{Epoch: epoch, Let: let})
	if err != nil {
		return fmt.Errorf("fence %s: %w", s, err)
	}
	for {
		there, last, err := t.cell.fenceOf(ctx, s)
		if err != nil || there.Epoch > epoch || there.Epoch == epoch && slices.Equal(there.Let, let) {
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

// Find is Queued, and tells the place of what is there in the stream.
func (t *Tasks) Find(ctx context.Context, x task.Task) (place uint64, queued bool, err error) {
	place, queued, err = t.look(ctx, x, t.cell.names.task(x.Queue, x.Session, x.Place))
	if err != nil {
		return 0, false, fmt.Errorf("look for task %s/%s: %w", x.Session, x.Place, err)
	}
	return place, queued, nil
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
// replaced, and that came too late to be found by it.
func (q *Queue) overtaken(ctx context.Context, c *claim, stored time.Time) (bool, error) {
	x := c.task
	if x.Effects.Retryable() || x.Epoch == 0 || stored.Sub(x.Decided.Std()).Abs() < late {
		return false, nil
	}
	f, _, err := q.cell.fenceOf(ctx, x.Session)
	return f.Epoch > x.Epoch && !slices.Contains(f.Let, c.seq), err
}

// errOvertaken says that a task came too late to be run: if it still has to be, the
// session's driver publishes it again.
var errOvertaken = errors.New("task of a driver that was replaced")

// admit takes a task off its queue that must not run any more, and then wakes the session,
// in case that its driver had found the task and let the session go. One that still has
// the session then looks again as it lets go. A task of which it cannot be told goes back.
// One that was handed out before may have been run, which is for whoever claims it to
// report.
func (q *Queue) admit(ctx context.Context, c *claim, msg *nats.Msg, stored time.Time) error {
	if c.delivery > 1 {
		return nil
	}
	over, err := q.overtaken(ctx, c, stored)
	if err != nil {
		q.giveBack(context.WithoutCancel(ctx), msg)
		return err
	}
	if !over {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	_ = q.cell.confirm(ctx, c.reply, answerTerm) // unheard, it comes again
	_ = q.runs.Wake(ctx, c.task.Session)         // nothing else would tell: its inbox is empty
	return errOvertaken
}

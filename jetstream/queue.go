package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

// rememberedCancels is how many cancels a queue keeps in mind for tasks that it
// hands out later: those on their way here when the cancel came, and those that
// come back from another worker.
const rememberedCancels = 256

// Queue is the worker's side of one task queue. It is safe for concurrent use; the
// slots of a worker share one. Close it when nothing more is to be claimed.
type Queue struct {
	cell  *Cell
	name  string
	lease time.Duration
	tasks *puller
	inbox *Inbox
	runs  *Runs

	mu      sync.Mutex
	held    map[*claim]struct{}
	cancels []cancelOf         // the last ones, oldest first
	hears   *nats.Subscription // to cancels; nil once nothing is left that they could mean
	closed  bool
}

var _ task.Queue = (*Queue)(nil)

// cancelOf is a cancel of a session's call.
type cancelOf struct {
	cancelNotice
	session content.SessionID
}

// matches reports whether the cancel means that claim. A place may be dispatched
// again, so the task's own sequence counts where it is known.
func (n cancelOf) matches(c *claim) bool {
	return n.session == c.task.Session && n.Place == c.task.Place && n.Queue == c.task.Queue &&
		(n.Seq == 0 || n.Seq == c.seq)
}

// Queue returns the worker's side of the named queue, which has to be there: see
// EnsureQueue.
func (c *Cell) Queue(ctx context.Context, name string) (*Queue, error) {
	q := &Queue{cell: c, name: name, inbox: c.Inbox(), runs: c.Runs(), held: make(map[*claim]struct{})}
	var err error
	// Behind the answer to the next request it hears every cancel.
	if q.hears, err = c.nc.Subscribe(c.names.allCancels(), q.hearCancel); err != nil {
		return nil, fmt.Errorf("queue %s: listen for cancels: %w", name, err)
	}
	stream, consumer := c.names.tasksStream(), c.names.queueConsumer(name)
	info, err := c.consumerInfo(ctx, stream, consumer)
	if err != nil {
		_ = q.hears.Unsubscribe() // the connection may be gone
		if isNoConsumer(err) {
			return nil, fmt.Errorf("queue %s: %w: consumer %s of %s is missing", name, ErrNotProvisioned, consumer, stream)
		}
		return nil, fmt.Errorf("queue %s: %w", name, c.explain(ctx, stream, err))
	}
	q.lease = time.Duration(info.Config.AckWait)
	life := context.WithoutCancel(ctx) // the queue outlives the call that opens it
	q.tasks = newPuller(c.nc, stream, consumer, func(msg *nats.Msg) { q.giveBack(life, msg) })
	return q, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Claim waits for a task. It returns context.Cause(ctx) when ctx ends, and
// task.ErrClosed when the queue is closed; a task that arrives later goes back to the
// queue, and its Delivery does not count it.
// After another error the task that could not be read is tried again when its
// lease lapses, and Claim may go on.
func (q *Queue) Claim(ctx context.Context) (task.Claim, error) {
	msg, err := q.tasks.take(ctx)
	if err != nil {
		return nil, err
	}
	c, err := q.open(ctx, msg)
	if errors.Is(err, errOvertaken) {
		return q.Claim(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			q.giveBack(context.WithoutCancel(ctx), msg)
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("task %s: %w", msg.Subject, err)
	}
	q.hold(c)
	return c, nil
}

// Close withdraws the requests that stand at the server for claims that were given
// up, and waits until what came for them meanwhile is back on the queue. A request
// that stood on would take the next task away from the others, until its lease
// lapses if this process has ended by then. Claims that are held go on, and hear of
// cancels.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.hush()
	q.mu.Unlock()
	if err := q.tasks.close(ctx); err != nil {
		return fmt.Errorf("close queue %s: %w", q.name, err)
	}
	return nil
}

// hush ends the listening to cancels of a closed queue once it holds no claim. The
// lock is held.
func (q *Queue) hush() {
	if q.closed && len(q.held) == 0 && q.hears != nil {
		_ = q.hears.Unsubscribe() // or the connection is gone, and with it the subscription
		q.hears = nil
	}
}

func (q *Queue) open(ctx context.Context, msg *nats.Msg) (*claim, error) {
	c := &claim{queue: q, reply: msg.Reply, until: time.Now().Add(q.lease), cancelled: make(chan struct{})}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read its reply subject: %w", err)
	}
	c.seq = meta.Sequence.Stream
	if isAimed(msg.Header) {
		_ = msg.Respond([]byte(answerTerm)) // unheard, it comes again and is refused again
		return nil, errAimed
	}
	c.delivery = int(meta.NumDelivered) - q.neverHandedOut(ctx, meta)
	data, err := q.cell.unpack(ctx, msg.Header, msg.Data)
	if err != nil {
		return nil, err
	}
	c.task, err = decodeTask(data)
	c.task.Ticket = msg.Header.Get(headerTicket)
	if err != nil {
		return nil, err
	}
	return c, q.admit(ctx, c, msg, meta.Timestamp)
}

// hold registers a claim for cancels, and cancels it if one came before.
func (q *Queue) hold(c *claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held[c] = struct{}{}
	for _, n := range q.cancels {
		if n.matches(c) {
			c.cancel(n.Reason)
		}
	}
}

// drop forgets a claim that is over.
func (q *Queue) drop(c *claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, c)
	q.hush()
}

// hearCancel passes a cancel on to the claim that it means and remembers it.
func (q *Queue) hearCancel(msg *nats.Msg) {
	n := cancelOf{session: q.cell.names.sessionOf(msg.Subject)}
	if unmarshal(msg.Data, &n.cancelNotice) != nil || n.Queue != q.name {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for c := range q.held {
		if n.matches(c) {
			c.cancel(n.Reason)
		}
	}
	if n.Seq == 0 {
		return // of no task that could come later
	}
	if len(q.cancels) == rememberedCancels {
		q.cancels = append(q.cancels[:0], q.cancels[1:]...)
	}
	q.cancels = append(q.cancels, n)
}

// Deliveries that nobody began.
//
// The server counts every delivery, also one for a claimer that had just left. A
// worker must tell such a one from a delivery whose worker was lost: the call of
// a tool that must not run twice would end as unknown although it never ran. So
// the number of a task's deliveries that were never handed out is kept beside the
// catalog, written before the task goes back, and read only for redeliveries.

func (q *Queue) unclaimedKey(meta *nats.MsgMetadata) string {
	return fmt.Sprintf("unclaimed.%s.%d", q.name, meta.Sequence.Stream)
}

// neverHandedOut returns how many deliveries of a task before this one nobody
// began. When in doubt they count as begun.
func (q *Queue) neverHandedOut(ctx context.Context, meta *nats.MsgMetadata) int {
	if meta.NumDelivered < 2 {
		return 0
	}
	var n int
	data, err := q.cell.keyGet(ctx, q.cell.names.catalogBucket(), q.unclaimedKey(meta))
	if err != nil || unmarshal(data, &n) != nil {
		return 0
	}
	return min(n, int(meta.NumDelivered)-1)
}

// unclaimedTTL is how long it is remembered that a delivery was not begun.
const unclaimedTTL = time.Hour

// giveBack returns a task that nobody waits for any more.
func (q *Queue) giveBack(ctx context.Context, msg *nats.Msg) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if meta, err := msg.Metadata(); err == nil {
		n, err := msgpack.Marshal(q.neverHandedOut(ctx, meta) + 1)
		if err == nil {
			// Without it the delivery counts, which errs on the safe side.
			_ = q.cell.keyPut(ctx, q.cell.names.catalogBucket(), q.unclaimedKey(meta), n, unclaimedTTL)
		}
	}
	_ = msg.Respond([]byte(answerNak)) // unheard, the task comes back when its lease lapses
}

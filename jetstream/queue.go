package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/pull"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
	"github.com/turnlog/turnlog/worker/task"
)

const (
	// rememberedCancels is how many cancels a queue remembers for tasks that it hands out later: tasks that
	// were in flight when the cancel arrived, and tasks that another worker returns.
	rememberedCancels = 256

	// unclaimedTTL is how long an unclaimed delivery is remembered.
	unclaimedTTL = time.Hour

	// begunTTL is how long a queue remembers that a call has begun: the greatest age of a backup of the tasks
	// that runs no call twice.
	begunTTL = 24 * time.Hour

	// inFlight is how long a cancel counts for direct calls: the call may be claimed after its cancel arrived.
	// Later, the same place may be sent again.
	inFlight = time.Second
)

// Queue is the worker's side of one task queue. It is safe for concurrent use; the slots of a worker
// share one. Close it after the last Claim.
type Queue struct {
	cell      *Cell
	name      string
	lease     time.Duration
	tasks     *pull.Puller
	inbox     *Inbox
	runs      *Runs
	unclaimed bucket.Bucket[int]
	memory    *semaphore.Weighted   // for calls with large tasks
	begun     bucket.Bucket[string] // calls that must not run twice: the secret of the claim that began each

	directDenied atomic.Bool // the server denies direct reports to this user

	mu      sync.Mutex
	held    map[*claim]struct{}
	cancels []cancelOf         // the last cancels, oldest first
	sub     *nats.Subscription // to cancels; nil once no more claims are possible
	direct  *nats.Subscription // to direct calls; nil: none
	closed  bool
}

var _ task.Queue = (*Queue)(nil)

// cancelOf is a cancel of a session's call.
type cancelOf struct {
	cancelNotice
	session content.SessionID
	heard   time.Time
}

// matches reports whether the cancel is for a claim. A place may be dispatched again, so the sequence of
// the task decides if it is known.
func (n cancelOf) matches(c *claim) bool {
	return n.session == c.task.Session && n.Place == c.task.Place && n.Queue == c.task.Queue &&
		(n.Seq == 0 || n.Seq == c.seq || c.isDirect())
}

// Queue returns the worker's side of an existing queue; see admin's EnsureQueue.
func (c *Cell) Queue(ctx context.Context, name string) (*Queue, error) {
	q := &Queue{
		cell: c, name: name, inbox: c.Inbox(), runs: c.Runs(), held: make(map[*claim]struct{}), memory: semaphore.NewWeighted(task.CallMemory),
		begun:     bucket.OfValues[string](c.api, "begun call", c.names.Catalog(), layout.BegunKeys, 2, begunTTL),
		unclaimed: bucket.OfValues[int](c.api, "unclaimed delivery", c.names.Catalog(), layout.UnclaimedKeys, 2, unclaimedTTL),
	}
	var err error
	// It receives every cancel sent after the answer to the next request.
	if q.sub, err = c.nc.Subscribe(c.names.Cancel(AllSessions), q.cancel); err != nil {
		return nil, fmt.Errorf("queue %s: listen for cancels: %w", name, err)
	}
	stream, consumer := c.names.TasksStream(), c.names.QueueConsumer(name)
	info, err := c.api.Consumer(ctx, stream, consumer)
	if err != nil {
		_ = q.sub.Unsubscribe() // the connection may be gone
		if api.IsNoConsumer(err) {
			err = fmt.Errorf("%w: consumer %s of %s is missing", ErrNotProvisioned, consumer, stream)
		}
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	q.lease = time.Duration(info.Config.AckWait)
	life := context.WithoutCancel(ctx) // the queue outlives this call
	q.tasks = pull.New(c.nc, stream, consumer, func(msg *nats.Msg) { q.giveBack(life, msg, api.Nak) })
	if most := info.Config.MaxAckPending; most > 0 && most < layout.QueueConcurrency {
		return q, nil // an operator limits the concurrent calls, which only the queue can count
	}
	if q.direct, err = c.nc.QueueSubscribe(c.names.Call(name, AllSessions, "*"), layout.Workers, q.receive); err != nil {
		_ = q.sub.Unsubscribe() // as above
		return nil, fmt.Errorf("queue %s: listen for calls: %w", name, err)
	}
	return q, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Claim waits for a task. It returns context.Cause(ctx) when ctx ends, and task.ErrClosed when the queue is
// closed. A task that arrives later returns to the queue, and that delivery does not count. After any other
// error the unreadable task is redelivered when its lease expires, and the caller may claim the next one.
func (q *Queue) Claim(ctx context.Context) (task.Claim, error) {
	for {
		msg, err := q.tasks.Take(ctx)
		if err != nil {
			return nil, err
		}
		c, err := q.open(ctx, msg)
		switch {
		case errors.Is(err, errFenced):
			continue
		case err != nil && isDirect(msg):
			q.decline(msg)
		case err != nil && !errors.Is(err, api.ErrSpoofed) && !errors.Is(err, task.ErrForged) && (ctx.Err() != nil || c != nil):
			q.giveBack(context.WithoutCancel(ctx), msg, api.Nak)
		case errors.Is(err, events.ErrUnknownKind): // sealed: another worker may have the key
			q.giveBack(context.WithoutCancel(ctx), msg, fmt.Sprintf(`%s {"delay":%d}`, api.Nak, time.Second))
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, fmt.Errorf("task %s: %w", msg.Subject, err)
		}
		q.hold(c)
		return c, nil
	}
}

// Close withdraws pending requests, which would take tasks from other workers, and waits until tasks that
// arrived for them are back on the queue. Held claims continue and receive cancels.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.unsubscribe()
	q.mu.Unlock()
	if err := q.tasks.Close(ctx); err != nil {
		return fmt.Errorf("close queue %s: %w", q.name, err)
	}
	return nil
}

// unsubscribe ends the subscriptions of a closed queue without claims. Until then it hears cancels, and declines
// direct calls. The caller holds the lock.
func (q *Queue) unsubscribe() {
	if q.closed && len(q.held) == 0 && q.sub != nil {
		_ = q.sub.Unsubscribe() // the connection may be gone
		if q.direct != nil {
			_ = q.direct.Unsubscribe() // as above
		}
		q.sub = nil
	}
}

// open reads a task. If it returns an error and a claim, the task may be tried again.
func (q *Queue) open(ctx context.Context, msg *nats.Msg) (_ *claim, err error) {
	c, stored, err := q.claimOf(ctx, msg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			q.drop(c)
		}
	}()
	data := msg.Data
	if name := msg.Header.Get(layout.HeaderBlob); name != "" {
		if data, err = q.fetch(ctx, c, name); err != nil {
			return nil, err
		}
	}
	s := q.cell.names.SessionOf(msg.Subject)
	if msg.Header.Get(layout.HeaderSealed) == "" {
		q.cell.seals.Unsealed(s)
	}
	if data, err = q.cell.seals.Open(ctx, s, sealing.Task, msg.Header, data); err != nil {
		return nil, err
	}
	if err := decodeValue(data, &c.task); err != nil {
		return nil, err
	}
	c.task.Ticket = msg.Header.Get(layout.HeaderTicket)
	if c.isDirect() && (!c.task.Direct || !c.task.Effects.Retryable()) {
		return nil, fmt.Errorf("%w: it must be stored", task.ErrForged)
	}
	if err := q.cell.keys.CheckTask(msg, data, stored); err != nil {
		_ = msg.Respond([]byte(api.Term)) // as in claimOf; the session dispatches the call again if it is not on its queue
		return nil, err
	}
	return c, q.admit(ctx, c, stored)
}

// claimOf returns the claim of a task that it does not read, and when the task was stored, or a direct call
// arrived.
func (q *Queue) claimOf(ctx context.Context, msg *nats.Msg) (*claim, time.Time, error) {
	now := time.Now()
	if isDirect(msg) {
		return &claim{queue: q, node: msg.Header.Get(layout.HeaderHeld), delivery: 1, lease: DirectLease, until: now.Add(DirectLease)}, now, nil
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, now, fmt.Errorf("read its reply subject: %w", err)
	}
	if api.IsSpoofed(msg.Header) {
		_ = msg.Respond([]byte(api.Term)) // if this is lost, the message is redelivered and refused again
		return nil, now, api.ErrSpoofed
	}
	delivery := int(meta.NumDelivered) - q.neverClaimed(ctx, meta)
	return &claim{queue: q, reply: msg.Reply, seq: meta.Sequence.Stream, delivery: delivery, lease: q.lease, until: now.Add(q.lease)}, meta.Timestamp, nil
}

// fetch returns a large task once there is memory for its call. It renews the lease while it waits.
func (q *Queue) fetch(ctx context.Context, c *claim, name string) ([]byte, error) {
	large, err := q.cell.blobs.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if large.Size() > maxCommand {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, large.Size(), maxCommand)
	}
	memory := task.MemoryOf(large.Size())
	for c.memory == 0 {
		soon, cancel := context.WithTimeout(ctx, q.lease/3)
		err := q.memory.Acquire(soon, memory)
		cancel()
		switch {
		case err == nil:
			c.memory = memory
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			if err := c.Extend(ctx); err != nil {
				return nil, err
			}
		}
	}
	return large.Read(ctx)
}

// hold registers a claim for cancels, including those that already arrived.
func (q *Queue) hold(c *claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held[c] = struct{}{}
	for _, n := range q.cancels {
		old := n.Seq == 0 // of a task that was not in its stream: no later delivery can match it
		if c.isDirect() {
			old = time.Since(n.heard) >= inFlight
		}
		if n.matches(c) && !old {
			c.cancel(n.Reason)
		}
	}
}

// drop forgets a finished claim.
func (q *Queue) drop(c *claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, c)
	q.memory.Release(c.memory)
	c.memory = 0
	q.unsubscribe()
}

// cancel passes a cancel on to its claim and remembers it.
func (q *Queue) cancel(msg *nats.Msg) {
	n := cancelOf{session: q.cell.names.SessionOf(msg.Subject), heard: time.Now()}
	err := decodeValue(msg.Data, &n.cancelNotice)
	asks := n.Asks != ""
	if asks {
		n.Queue = n.Asks
	}
	switch {
	case err != nil || n.Queue != q.name || api.IsSpoofed(msg.Header) || !q.cell.keys.MayStop(msg, n.At):
		return
	case asks:
		q.confirm(n)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for c := range q.held {
		if n.matches(c) {
			c.cancel(n.Reason)
		}
	}
	q.cancels = slices.DeleteFunc(q.cancels, func(old cancelOf) bool { return old.Seq == 0 && n.heard.Sub(old.heard) >= inFlight })
	if len(q.cancels) == rememberedCancels {
		q.cancels = slices.Delete(q.cancels, 0, 1)
	}
	q.cancels = append(q.cancels, n)
}

// Unclaimed deliveries.
//
// The server counts every delivery, even one whose claimer had just left, which must not end a call as unknown.
// So a bucket counts those. It is written before the task is returned, and read only for redeliveries.

func (q *Queue) unclaimedKey(meta *nats.MsgMetadata) string {
	return fmt.Sprintf("%s.%d", q.name, meta.Sequence.Stream)
}

// neverClaimed returns how many earlier deliveries of a task were never claimed. After an error, all count
// as claimed.
func (q *Queue) neverClaimed(ctx context.Context, meta *nats.MsgMetadata) int {
	if meta.NumDelivered < 2 {
		return 0
	}
	n, _, err := q.unclaimed.Get(ctx, q.unclaimedKey(meta))
	if err != nil {
		return 0
	}
	return min(n.Value, int(meta.NumDelivered)-1)
}

// giveBack returns a task without a claimer to the queue, or declines a direct call.
func (q *Queue) giveBack(ctx context.Context, msg *nats.Msg, nak string) {
	if isDirect(msg) {
		q.decline(msg)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, api.PublishTimeout)
	defer cancel()
	if meta, err := msg.Metadata(); err == nil {
		// If this fails, the delivery counts as claimed, which is safe.
		_, _ = q.unclaimed.Put(ctx, q.unclaimedKey(meta), q.neverClaimed(ctx, meta)+1)
	}
	_ = msg.Respond([]byte(nak)) // if this is lost, the task returns when its lease expires
}

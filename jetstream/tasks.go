package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
	"github.com/turnlog/turnlog/worker/task"
)

// maxDispatchTries limits how often Dispatch makes room for an attempt.
const maxDispatchTries = 5

// ErrUnclear is returned by Dispatch when a task may have reached its queue, or may still reach it: a
// frozen server resumes with the messages that it received. Fence a task that must not run twice before
// dispatching it again.
var ErrUnclear = errors.New("outcome unknown")

// Tasks is the driver's side of the cell's task queues. A task is a message on its own subject that
// stays until its worker is done. The server rejects a second message on that subject.
type Tasks struct {
	cell *Cell
}

var _ task.Dispatcher = (*Tasks)(nil)

// Tasks returns the driver's side of the cell's queues.
func (c *Cell) Tasks() *Tasks { return &Tasks{cell: c} }

// Dispatch puts x on its queue. It returns task.ErrQueued if x or a task that supersedes it is queued. It
// replaces an earlier dispatch of the call, which its holder has lost. After any other error it is unknown
// whether x is queued; as after a crash, read the inbox before dispatching it again.
func (t *Tasks) Dispatch(ctx context.Context, x task.Task) (err error) {
	if !content.IsToken(x.Queue) || !content.IsToken(string(x.Session)) || !content.IsToken(string(x.Place)) {
		return fmt.Errorf("dispatch: %w: queue %q, session %q, place %q", content.ErrBadID, x.Queue, x.Session, x.Place)
	}
	defer func() {
		if err != nil && !errors.Is(err, task.ErrQueued) {
			err = fmt.Errorf("dispatch %s/%s: %w", x.Session, x.Place, t.cell.api.Explain(ctx, t.cell.names.TasksStream(), err))
		}
	}()
	data, err := encodeValue(&x)
	if err != nil {
		return err
	}
	msg, err := t.message(ctx, x, t.cell.names.Task(x.Queue, x.Session, x.Place), data)
	if err != nil {
		return err
	}
	for range maxDispatchTries {
		err = api.Patiently(ctx, func(ctx context.Context) error {
			_, err := t.cell.api.Publish(ctx, msg)
			if api.IsUnknown(err) {
				return fmt.Errorf("%w: %v", ErrUnclear, err) //nolint:errorlint // a timeout must not be retried
			}
			return err
		})
		if !api.IsAlreadyThere(err) {
			return err
		}
		if room, err := t.makeRoom(ctx, x, msg.Subject); err != nil || !room {
			return err
		}
	}
	return err
}

// message returns the message of a task.
func (t *Tasks) message(ctx context.Context, x task.Task, subject string, data []byte) (*nats.Msg, error) {
	msg := nats.NewMsg(subject)
	if err := t.cell.pack(ctx, x.Session, sealing.Task, msg, data); err != nil {
		return nil, err
	}
	if x.Ticket != "" {
		msg.Header.Set(layout.HeaderTicket, x.Ticket)
	}
	t.cell.keys.Task(msg, data)
	return msg, nil
}

// makeRoom removes an earlier dispatch from x's subject and reports whether the subject is free. It
// returns task.ErrQueued if the queued task has to stay.
func (t *Tasks) makeRoom(ctx context.Context, x task.Task, subject string) (bool, error) {
	seq, queued, err := t.look(ctx, x, subject)
	switch {
	case err != nil:
		return false, err
	case queued:
		return false, task.ErrQueued
	case seq == 0:
		return true, nil
	}
	return true, t.remove(ctx, seq)
}

// look asks the stream's leader for the message on a task's subject. It returns its sequence, or 0 for
// none, and whether the message is x or supersedes x. A message that cannot be decoded is neither, since no
// worker can run it.
func (t *Tasks) look(ctx context.Context, x task.Task, subject string) (seq uint64, queued bool, err error) {
	m, err := t.cell.api.Last(ctx, t.cell.names.TasksStream(), subject)
	if errors.Is(err, api.ErrNoMessage) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	data, err := t.cell.unpack(ctx, x.Session, sealing.Task, m.Header, m.Data, maxCommand)
	if m.Spoofed || errors.Is(err, ErrBlobMissing) || errors.Is(err, ErrTooLarge) || errors.Is(err, seal.ErrNotOpened) {
		return m.Seq, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	var there task.Task
	return m.Seq, decodeValue(data, &there) == nil && !x.Supersedes(there), nil
}

func (t *Tasks) remove(ctx context.Context, seq uint64) error {
	return t.cell.api.Delete(ctx, t.cell.names.TasksStream(), seq)
}

// Queued reports whether x or a task that supersedes it is queued, pending or running. It asks
// the stream's leader.
func (t *Tasks) Queued(ctx context.Context, x task.Task) (bool, error) {
	_, queued, err := t.look(ctx, x, t.cell.names.Task(x.Queue, x.Session, x.Place))
	if err != nil {
		return false, fmt.Errorf("look for task %s/%s: %w", x.Session, x.Place, err)
	}
	return queued, nil
}

// cancelNotice asks the workers of a queue to stop a call, or which of them holds it.
type cancelNotice struct {
	Queue  string        `msgpack:"q"`
	Place  content.Place `msgpack:"p"`
	Seq    uint64        `msgpack:"n,omitempty"` // of the task in its stream; 0: any
	Reason string        `msgpack:"r,omitempty"`
	At     content.Time  `msgpack:"t,omitempty"` // when it was sent

	// A notice with Asks stops nothing: the worker that holds the direct call tells Node so. Its Queue is empty, so
	// that workers of earlier releases ignore it.
	Asks string `msgpack:"h,omitempty"` // the queue whose workers are asked
	Node string `msgpack:"d,omitempty"`
}

// notify sends a notice to all workers.
func (t *Tasks) notify(s content.SessionID, n cancelNotice) error {
	n.At = content.TimeOf(time.Now())
	data, err := encodeValue(&n)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: t.cell.names.Cancel(s), Header: nats.Header{}, Data: data}
	t.cell.keys.Stop(msg)
	return t.cell.nc.PublishMsg(msg) //nolint:wrapcheck // callers say what it was about
}

// Cancel tells the worker of a call to stop, and removes a task that was never delivered from its queue. A
// delivered task stays until its worker is done, so that its place is not free while it may run. But a
// replicated consumer may report a delivery late, and such a task is removed. If a task returns to the
// queue, workers that received the cancel claim it as canceled.
func (t *Tasks) Cancel(ctx context.Context, queue string, s content.SessionID, p content.Place, reason string) error {
	m, err := t.cell.api.Last(ctx, t.cell.names.TasksStream(), t.cell.names.Task(queue, s, p))
	known := err == nil
	if errors.Is(err, api.ErrNoMessage) {
		err = nil
	}
	if err := errors.Join(err, t.notify(s, cancelNotice{Queue: queue, Place: p, Seq: m.Seq, Reason: reason})); err != nil {
		return fmt.Errorf("cancel %s/%s: %w", s, p, err)
	}
	if !known {
		return nil
	}
	delivered, err := t.delivered(ctx, queue)
	if err == nil && delivered < m.Seq {
		err = t.remove(ctx, m.Seq)
	}
	if err != nil {
		return fmt.Errorf("remove %s/%s from its queue: %w", s, p, err)
	}
	return nil
}

// delivered returns the sequence up to which a queue's tasks were delivered at least once; 0 for a
// queue without workers.
func (t *Tasks) delivered(ctx context.Context, queue string) (uint64, error) {
	info, err := t.cell.api.Consumer(ctx, t.cell.names.TasksStream(), t.cell.names.QueueConsumer(queue))
	if api.IsNoConsumer(err) {
		return 0, nil
	}
	return info.Delivered.StreamSeq, err
}

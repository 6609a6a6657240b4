package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/worker/task"
)

const apiMsgDelete = "$JS.API.STREAM.MSG.DELETE."

// dispatchTries bounds how often Dispatch makes room for an attempt.
const dispatchTries = 5

// ErrUnclear is returned by Dispatch when a task may or may not have reached its queue, or
// may yet: a server that stood still goes on with what it was sent. One that must not run
// twice is to be fenced off before it is dispatched again, see Fence.
var ErrUnclear = errors.New("outcome unknown")

// Tasks is the driver's side of the cell's task queues. A task is a message on a
// subject of its own that stays until its worker is done, and the server refuses
// a second one on that subject.
type Tasks struct {
	cell *Cell
}

var _ task.Dispatcher = (*Tasks)(nil)

// Tasks returns the driver's side of the cell's queues.
func (c *Cell) Tasks() *Tasks { return &Tasks{cell: c} }

// Dispatch puts x on its queue. It returns task.ErrQueued if x is there, or a task
// that supersedes it. An earlier dispatch of the call is over, or there would be no
// later one: whoever holds it has lost it, and Dispatch does not wait for its word.
// After any other error it is not known whether x is queued; it must not be
// dispatched again before the inbox was read, as after a crash.
func (t *Tasks) Dispatch(ctx context.Context, x task.Task) error {
	if !content.IsToken(x.Queue) || !content.IsToken(string(x.Session)) || !content.IsToken(string(x.Place)) {
		return fmt.Errorf("dispatch: %w: queue %q, session %q, place %q", content.ErrBadID, x.Queue, x.Session, x.Place)
	}
	err := t.dispatch(ctx, x)
	if err != nil && !errors.Is(err, task.ErrQueued) {
		return fmt.Errorf("dispatch %s/%s: %w", x.Session, x.Place, t.cell.explain(ctx, t.cell.names.tasksStream(), err))
	}
	return err
}

func (t *Tasks) dispatch(ctx context.Context, x task.Task) error {
	data, err := encodeTask(x)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: t.cell.names.task(x.Queue, x.Session, x.Place)}
	if msg.Header, msg.Data, err = t.cell.pack(ctx, data); err != nil {
		return err
	}
	if x.Ticket != "" {
		msg.Header = withHeader(msg.Header, headerTicket, x.Ticket)
	}
	for range dispatchTries {
		err = promptly(ctx, func(ctx context.Context) error {
			_, err := t.cell.publish(ctx, msg)
			if isUnknown(err) {
				return fmt.Errorf("%w: %v", ErrUnclear, err) //nolint:errorlint // a timeout must not be tried again
			}
			return err
		})
		if !isAlreadyThere(err) {
			return err
		}
		if room, err := t.makeRoom(ctx, x, msg.Subject); err != nil || !room {
			return err
		}
	}
	return err
}

// makeRoom takes an earlier dispatch than x off the queue and reports whether
// there is room now. It returns task.ErrQueued if what is there has to stay.
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

// look finds what is on a task's subject, 0 for nothing, and reports whether it is x
// or supersedes x. It asks the stream's leader. What cannot be read is neither: no
// worker can run it.
func (t *Tasks) look(ctx context.Context, x task.Task, subject string) (seq uint64, queued bool, err error) {
	m, err := t.cell.leaderLast(ctx, t.cell.names.tasksStream(), subject)
	if errors.Is(err, errNoMessage) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	data, err := t.cell.unpack(ctx, m.Header, m.Data)
	if m.Aimed || errors.Is(err, ErrBlobMissing) {
		return m.Seq, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	there, err := decodeTask(data)
	return m.Seq, err == nil && !x.Supersedes(there), nil
}

// remove takes a message off its queue; that it is gone already is fine.
func (t *Tasks) remove(ctx context.Context, seq uint64) error {
	query := fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq)
	err := patiently(ctx, func(ctx context.Context) error {
		_, err := t.cell.ask(ctx, apiMsgDelete+t.cell.names.tasksStream(), query)
		return err
	})
	if apiError(err) != nil && !isTransient(err) {
		return nil
	}
	return err
}

// Queued reports whether x is on its queue, waiting or running, or a task that
// supersedes it. It asks the stream's leader.
func (t *Tasks) Queued(ctx context.Context, x task.Task) (bool, error) {
	_, queued, err := t.look(ctx, x, t.cell.names.task(x.Queue, x.Session, x.Place))
	if err != nil {
		return false, fmt.Errorf("look for task %s/%s: %w", x.Session, x.Place, err)
	}
	return queued, nil
}

// cancelNotice tells the workers of a queue to stop a call.
type cancelNotice struct {
	Queue  string        `msgpack:"q"`
	Place  content.Place `msgpack:"p"`
	Seq    uint64        `msgpack:"n,omitempty"` // of the task in its stream; 0: whichever
	Reason string        `msgpack:"r,omitempty"`
}

// Cancel tells whoever runs the call to stop, and takes a task off the queue that
// was never handed out. One that was handed out stays until its worker is done
// with it, so that nothing can be dispatched in its place while it may run; if it
// comes back to the queue, the workers that heard of the cancel hand it out as
// cancelled.
func (t *Tasks) Cancel(ctx context.Context, queue string, s content.SessionID, p content.Place, reason string) error {
	m, err := t.cell.leaderLast(ctx, t.cell.names.tasksStream(), t.cell.names.task(queue, s, p))
	known := err == nil
	if errors.Is(err, errNoMessage) {
		err = nil
	}
	notice, encErr := msgpack.Marshal(cancelNotice{Queue: queue, Place: p, Seq: m.Seq, Reason: reason})
	pubErr := t.cell.nc.Publish(t.cell.names.cancel(s), notice)
	if err := errors.Join(err, encErr, pubErr); err != nil {
		return fmt.Errorf("cancel %s/%s: %w", s, p, err)
	}
	if !known {
		return nil
	}
	handedOut, err := t.handedOut(ctx, queue)
	if err == nil && handedOut < m.Seq {
		err = t.remove(ctx, m.Seq)
	}
	if err != nil {
		return fmt.Errorf("take %s/%s off its queue: %w", s, p, err)
	}
	return nil
}

// handedOut returns the sequence up to which a queue's tasks have been handed out
// at least once; 0 for a queue without workers.
func (t *Tasks) handedOut(ctx context.Context, queue string) (uint64, error) {
	info, err := t.cell.consumerInfo(ctx, t.cell.names.tasksStream(), t.cell.names.queueConsumer(queue))
	if isNoConsumer(err) {
		return 0, nil
	}
	return info.Delivered.StreamSeq, err
}

// consumerInfo is what the API says about a consumer, as far as it is used here.
type consumerInfo struct {
	Config struct {
		AckWait int64 `json:"ack_wait"`
	} `json:"config"`
	Delivered struct {
		StreamSeq uint64 `json:"stream_seq"`
	} `json:"delivered"`
}

func (c *Cell) consumerInfo(ctx context.Context, stream, consumer string) (info consumerInfo, err error) {
	var data []byte
	err = patiently(ctx, func(ctx context.Context) (err error) {
		data, err = c.ask(ctx, apiConsumerInfo+stream+"."+consumer, nil)
		return err
	})
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("consumer %s: %w", consumer, err)
	}
	return info, nil
}

func encodeTask(x task.Task) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(&x); err != nil {
		return nil, fmt.Errorf("encode task %s/%s: %w", x.Session, x.Place, err)
	}
	return buf.Bytes(), nil
}

func decodeTask(data []byte) (task.Task, error) {
	var x task.Task
	if err := unmarshal(data, &x); err != nil {
		return x, fmt.Errorf("decode task: %w", err)
	}
	return x, nil
}

// unmarshal decodes bytes that anybody may have written.
func unmarshal(data []byte, v any) error { return wire.Unmarshal(data, wire.CommandDepth, v) }

// Package task carries tool calls from drivers to workers.
//
// The one idea: a [Task] is one attempt at one call, named by its place, and
// putting it on its queue twice is refused, so that recovery can publish again
// without running anything twice. [Dispatcher] is the driver's side, [Queue] the
// worker's. A worker reports first and acknowledges afterwards: a crash between
// the two repeats a report, which decides to nothing.
//
// [Memory] keeps the contract in process; package tasktest holds every
// implementation to it.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Task is one attempt at one tool call on its way to a worker.
type Task struct {
	Session        content.SessionID `msgpack:"s" json:"session"`
	Turn           content.TurnID    `msgpack:"t" json:"turn"`
	Call           content.CallID    `msgpack:"c" json:"call"`
	Place          content.Place     `msgpack:"p" json:"place"`
	Attempt        int               `msgpack:"a" json:"attempt"`
	Queue          string            `msgpack:"q" json:"queue"`
	Tool           string            `msgpack:"n" json:"tool"`
	Input          json.RawMessage   `msgpack:"in,omitempty" json:"input,omitempty"`
	Effects        content.Effects   `msgpack:"e,omitempty" json:"effects,omitempty"`
	Deadline       content.Time      `msgpack:"dl,omitempty" json:"deadline,omitempty"` // zero: the worker's default timeout
	Wake           bool              `msgpack:"w,omitempty" json:"wake,omitempty"`      // the session may be parked when the result comes
	IdempotencyKey string            `msgpack:"k" json:"idempotency_key"`
	TraceParent    string            `msgpack:"tp,omitempty" json:"traceparent,omitempty"`
}

// Report is what became of an attempt.
type Report struct {
	Session content.SessionID `msgpack:"s" json:"session"`
	Call    content.CallID    `msgpack:"c" json:"call"`
	Place   content.Place     `msgpack:"p" json:"place"`
	Attempt int               `msgpack:"a" json:"attempt"`
	Queue   string            `msgpack:"q" json:"queue"`
	Lost    bool              `msgpack:"l,omitempty" json:"lost,omitempty"` // no outcome: whoever ran it is gone
	Reason  string            `msgpack:"r,omitempty" json:"reason,omitempty"`
	Outcome tool.Result       `msgpack:"o" json:"outcome"`
	Wake    bool              `msgpack:"-" json:"-"` // wake the session behind the report
}

// ErrQueued is returned by Dispatch when the call's place is on its queue already,
// waiting or running; the call is on its way and nothing needs to be done.
var ErrQueued = errors.New("task is queued already")

// ErrGone is returned for a claim whose lease was lost: another worker may have
// the task. Stop, and report nothing more.
var ErrGone = errors.New("task is gone")

// Dispatcher is the driver's side of the queues.
type Dispatcher interface {
	// Dispatch puts t on its queue. It returns ErrQueued if the place is there.
	Dispatch(ctx context.Context, t Task) error
	// Queued reports whether the place is on the queue, waiting or running. It
	// reads what is true now, not a copy that may lag.
	Queued(ctx context.Context, queue string, s content.SessionID, p content.Place) (bool, error)
	// Cancel tells whoever runs the call to stop, and takes it off the queue if
	// nobody does. It is best effort: the call's report, if any, is ignored by the
	// core.
	Cancel(ctx context.Context, queue string, s content.SessionID, p content.Place, reason string) error
}

// Queue is the worker's side of one queue.
type Queue interface {
	// Name is the queue's name.
	Name() string
	// Claim waits for a task. It returns context.Cause(ctx) when ctx ends.
	Claim(ctx context.Context) (Claim, error)
}

// Claim is a task that this worker holds for as long as it extends the lease.
type Claim interface {
	// Task is what there is to do.
	Task() Task
	// Delivery counts how often the task was handed out: 1, 2, …
	Delivery() int
	// Lease is how long a claim lasts without Extend.
	Lease() time.Duration
	// Extend renews the lease.
	Extend(ctx context.Context) error
	// Report sends what became of the attempt. It may be called again.
	Report(ctx context.Context, r Report) error
	// Done takes the task off the queue, confirmed.
	Done(ctx context.Context) error
	// Release hands the task back at once, for another worker.
	Release(ctx context.Context) error
	// Cancelled is closed when the call is to stop.
	Cancelled() <-chan struct{}
	// CancelReason says why it is to stop, once it is.
	CancelReason() string
}

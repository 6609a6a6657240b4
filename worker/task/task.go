// Package task carries tool calls from drivers to workers.
//
// The one idea: a [Task] is one dispatch of a call, named by its place, and putting
// it on its queue twice is refused, so that recovery can publish again without
// running anything twice. [Dispatcher] is the driver's side, [Queue] the worker's.
//
// A call may be dispatched more than once: again after its worker was lost, as a
// later attempt, and again under the same attempt once a person has approved what
// the tool asked for in the middle. Dispatches of a call have an order, see
// [Task.Supersedes], and a question about the queue is about one of them: a later
// one takes the place of an earlier one, whose holder has lost it from then on, and
// an earlier one is never taken for a later one. So a driver need not know whether
// the worker of the dispatch before has acknowledged yet, is slow, or is dead.
//
// A worker reports first and acknowledges afterwards: a crash between the two
// repeats a report, which has no effect, and a driver that finds no task
// finds the report. With a question it is the other way round. A question says that
// nothing was done, so a crash between the two only loses the question, and the call
// is dispatched and asks once more; reported first, it could come to a second worker
// that must take it for one that was begun and lost.
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
	Session        content.SessionID     `msgpack:"s" json:"session"`
	Turn           content.TurnID        `msgpack:"t" json:"turn"`
	Call           content.CallID        `msgpack:"c" json:"call"`
	Place          content.Place         `msgpack:"p" json:"place"`
	Attempt        int                   `msgpack:"a" json:"attempt"`
	Queue          string                `msgpack:"q" json:"queue"`
	Tool           string                `msgpack:"n" json:"tool"`
	Input          json.RawMessage       `msgpack:"in,omitempty" json:"input,omitempty"`
	Effects        content.Effects       `msgpack:"e,omitempty" json:"effects,omitempty"`
	Deadline       content.Time          `msgpack:"dl,omitempty" json:"deadline,omitempty"` // zero: the worker's default timeout
	Wake           bool                  `msgpack:"w,omitempty" json:"wake,omitempty"`      // the session may be parked when the result comes
	IdempotencyKey string                `msgpack:"k" json:"idempotency_key"`
	Timeout        time.Duration         `msgpack:"to,omitempty" json:"timeout_ns,omitempty"` // that Deadline was made of; zero: not known
	MaxOutput      int                   `msgpack:"mo,omitempty" json:"max_output,omitempty"` // bytes of output that the result holds; zero: as the worker has it
	Policy         json.RawMessage       `msgpack:"po,omitempty" json:"policy,omitempty"`     // what the session's agent lets its calls do, a permission.Policy for the worker; empty: none
	Approved       []content.QuestionKey `msgpack:"ap,omitempty" json:"approved,omitempty"`   // what people approved for the call, or for always
	TraceParent    string                `msgpack:"tp,omitempty" json:"traceparent,omitempty"`
	Epoch          uint64                `msgpack:"ep,omitempty" json:"epoch,omitempty"`   // of the driver that dispatches it; zero: there is only one
	Decided        content.Time          `msgpack:"da,omitempty" json:"decided,omitempty"` // when that driver wrote what the dispatch follows from, by a clock that agrees with the servers'; zero: it has none
	Ticket         string                `msgpack:"-" json:"-"`                            // proves that a report is about this dispatch; travels beside the task
}

// Supersedes reports whether t was dispatched after another task of the same call:
// it is a later attempt, or the same one with more approvals.
func (t Task) Supersedes(other Task) bool {
	if t.Attempt != other.Attempt {
		return t.Attempt > other.Attempt
	}
	return len(t.Approved) > len(other.Approved)
}

// Report is the end of an attempt: an outcome, the loss of its worker, or a question.
type Report struct {
	Session content.SessionID `msgpack:"s" json:"session"`
	Call    content.CallID    `msgpack:"c" json:"call"`
	Place   content.Place     `msgpack:"p" json:"place"`
	Attempt int               `msgpack:"a" json:"attempt"`
	Queue   string            `msgpack:"q" json:"queue"`
	Lost    bool              `msgpack:"l,omitempty" json:"lost,omitempty"` // no outcome: its worker is gone
	Reason  string            `msgpack:"r,omitempty" json:"reason,omitempty"`
	Gate    *tool.Verdict     `msgpack:"g,omitempty" json:"gate,omitempty"` // no outcome: nothing was done, a person has to decide first
	Outcome tool.Result       `msgpack:"o" json:"outcome"`
	Wake    bool              `msgpack:"-" json:"-"` // wake the session after the report
}

// ErrQueued is returned by Dispatch when the task is on its queue already, waiting
// or running, or one that supersedes it is; the call is on its way and nothing needs
// to be done.
var ErrQueued = errors.New("task is queued already")

var errOneByOne = errors.New("the simple task manager runs one call at a time; use Async")

// ErrGone is returned for a claim whose lease was lost: another worker may have
// the task, or a later dispatch took its place. Stop, and report nothing more.
var ErrGone = errors.New("task is gone")

// ErrClosed is returned by Claim once the queue was closed. Open another one.
var ErrClosed = errors.New("queue is closed")

// Dispatcher is the driver's side of the queues.
type Dispatcher interface {
	// Dispatch puts t on its queue, in the place of an earlier dispatch of the call
	// if one is there. It returns ErrQueued if t is there, or one that supersedes it.
	// Where queues have replicas, one of them may hand the earlier one out for a moment
	// longer, as if that had been claimed just before.
	Dispatch(ctx context.Context, t Task) error
	// Queued reports whether t is on its queue, waiting or running, or one that
	// supersedes it: whether Dispatch would return ErrQueued. It reads what is true
	// now, not a copy that may lag.
	Queued(ctx context.Context, t Task) (bool, error)
	// Cancel tells the worker that runs the call to stop, and removes it from the queue if
	// none does. It is best effort: the call's report, if any, is ignored by the
	// core.
	Cancel(ctx context.Context, queue string, s content.SessionID, p content.Place, reason string) error
}

// Queue is the worker's side of one queue.
type Queue interface {
	// Name is the queue's name.
	Name() string
	// Claim waits for a task. It returns context.Cause(ctx) when ctx ends, and
	// ErrClosed when the queue is closed.
	Claim(ctx context.Context) (Claim, error)
	// Close withdraws what this side of the queue has asked for: once it returns, no
	// task is on its way here. It ends every Claim that waits and leaves the claims
	// that are held alone, cancels included. If ctx ends first, its cause is returned,
	// and a task may be held here until its lease expires.
	Close(ctx context.Context) error
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

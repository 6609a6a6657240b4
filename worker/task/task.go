// Package task carries tool calls from drivers to workers.
//
// A [Task] is one dispatch of a call, named by its place. A queue refuses a duplicate,
// so recovery can publish again without running anything twice. [Dispatcher] is the
// driver's side, [Queue] the worker's.
//
// A call may be dispatched again: as a later attempt after its worker was lost, and
// as the same attempt after a person approved what the tool asked. Dispatches of a call
// have an order, see [Task.Supersedes]. A later one replaces an earlier one, whose
// holder loses it; an earlier one never replaces a later one. So a driver need not know
// whether the previous worker finished, is slow, or died.
//
// A worker reports first and acknowledges afterwards. A crash in between repeats the
// report, which has no effect, and a driver that finds no task finds the report. A
// question is acknowledged first. Nothing was done, so a crash in between only loses
// the question: the call is dispatched again and asks again. If the question were
// reported first, a second worker could get the task and would have to consider the
// call lost.
//
// A call that may run twice may also go directly to a worker, without the queue. The worker gets a claim like
// any other, with its own lease.
//
// Package jetstream implements the contract, and package tasktest tests it.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Task is one dispatch of a tool call to a worker.
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
	Declared       content.Effects       `msgpack:"ed,omitempty" json:"declared,omitempty"` // the effects by which policies judged the call
	Deadline       content.Time          `msgpack:"dl,omitempty" json:"deadline,omitempty"` // zero: the worker's default timeout
	Wake           bool                  `msgpack:"w,omitempty" json:"wake,omitempty"`      // the session may be parked when the result comes
	Direct         bool                  `msgpack:"di,omitempty" json:"direct,omitempty"`   // neither the task nor its outcome need be stored; only for calls that may run twice
	IdempotencyKey string                `msgpack:"k" json:"idempotency_key"`
	Timeout        time.Duration         `msgpack:"to,omitempty" json:"timeout_ns,omitempty"` // from which Deadline was computed; zero: unknown
	MaxOutput      int                   `msgpack:"mo,omitempty" json:"max_output,omitempty"` // bytes of the result's output; zero: the worker's own limit
	Policy         json.RawMessage       `msgpack:"po,omitempty" json:"policy,omitempty"`     // permission.Policy of the session's agent, for the worker; empty: none
	Approved       []content.QuestionKey `msgpack:"ap,omitempty" json:"approved,omitempty"`   // questions approved for this call or for always
	TraceParent    string                `msgpack:"tp,omitempty" json:"traceparent,omitempty"`
	Baggage        string                `msgpack:"bg,omitempty" json:"baggage,omitempty"` // W3C baggage from the sender of the turn's input
	Epoch          uint64                `msgpack:"ep,omitempty" json:"epoch,omitempty"`   // epoch of the driver that dispatches it; zero: there is only one
	Decided        content.Time          `msgpack:"da,omitempty" json:"decided,omitempty"` // when that driver wrote the entry that caused the dispatch, by a clock that agrees with the servers'; zero: no such clock
	Ticket         string                `msgpack:"-" json:"-"`                            // proves that a report is about this dispatch; a header of the task
}

// CallMemory limits the memory that a worker's calls with large tasks may take together. A call counts from
// the fetch of its task until its claim ends.
const CallMemory = 256 << 20

// taskMemory is how many bytes a call takes for each byte of its task: for fetching and decoding it,
// checking the arguments, and the tool's own copies.
const taskMemory = 16

// MemoryOf returns how much of CallMemory a call takes, given the size of its task. A call that may take
// more gets all of CallMemory alone.
func MemoryOf(size int64) int64 { return min(taskMemory*size, CallMemory) }

// Supersedes reports whether t was dispatched after another task of the same call:
// it is a later attempt, or the same one with more approvals.
func (t Task) Supersedes(other Task) bool {
	if t.Attempt != other.Attempt {
		return t.Attempt > other.Attempt
	}
	return len(t.Approved) > len(other.Approved)
}

// Offer is what a worker offers.
type Offer struct {
	Tools   []tool.Spec
	Slots   int // calls at a time; 0: unknown
	Running int // calls that it runs now
}

// Report is the end of an attempt: an outcome, the loss of its worker, or a question.
type Report struct {
	Session  content.SessionID `msgpack:"s" json:"session"`
	Call     content.CallID    `msgpack:"c" json:"call"`
	Place    content.Place     `msgpack:"p" json:"place"`
	Attempt  int               `msgpack:"a" json:"attempt"`
	Queue    string            `msgpack:"q" json:"queue"`
	Lost     bool              `msgpack:"l,omitempty" json:"lost,omitempty"` // no outcome: its worker was lost
	Reason   string            `msgpack:"r,omitempty" json:"reason,omitempty"`
	Question *tool.Verdict     `msgpack:"g,omitempty" json:"gate,omitempty"` // no outcome: nothing was done, and a person must decide first
	Outcome  tool.Result       `msgpack:"o" json:"outcome"`
	Wake     bool              `msgpack:"-" json:"-"` // wake the session after the report
}

// ErrQueued is returned by Dispatch when the task, or one that supersedes it, is already on its
// queue, waiting or running. Nothing needs to be done.
var ErrQueued = errors.New("task is queued already")

var errOneByOne = errors.New("task.Simple runs one call at a time; use task.Async")

// ErrGone is returned for a claim whose lease was lost: another worker may have the task, or a
// later dispatch replaced it. Stop, and report nothing more.
var ErrGone = errors.New("task is gone")

// ErrBegun is returned for a claim whose call must not run twice and began before, under this claim or another.
// Report the call as lost.
var ErrBegun = errors.New("the call began before")

// ErrForged is returned by Claim for a task that no driver signed, although one must. The queue has removed it.
var ErrForged = errors.New("the task is forged")

// ErrClosed is returned by Claim once the queue was closed. Open another one.
var ErrClosed = errors.New("queue is closed")

// Dispatcher is the driver's side of the queues.
type Dispatcher interface {
	// Dispatch puts t on its queue, replacing an earlier dispatch of the call. It returns
	// ErrQueued if t or a task that supersedes it is there. A replica of the queue may
	// deliver the earlier one for a moment longer, as if it had been claimed just before.
	Dispatch(ctx context.Context, t Task) error
	// Queued reports whether t, or a task that supersedes it, is on its queue, waiting or
	// running: whether Dispatch would return ErrQueued. It never reads from a lagging replica.
	Queued(ctx context.Context, t Task) (bool, error)
	// Cancel stops the worker that runs the call, or removes the call from the queue if
	// none does. It is best effort: the core ignores the call's report.
	Cancel(ctx context.Context, queue string, s content.SessionID, p content.Place, reason string) error
}

// Queue is the worker's side of one queue.
type Queue interface {
	// Name is the queue's name.
	Name() string
	// Claim waits for a task. It returns context.Cause(ctx) when ctx ends, and
	// ErrClosed when the queue is closed.
	Claim(ctx context.Context) (Claim, error)
	// Close withdraws the requests of this side of the queue: once it returns, no task is
	// on its way here. It ends the waiting Claims and leaves held claims alone, including
	// their cancels. If ctx ends first, Close returns its cause, and a task may be held
	// here until its lease expires.
	Close(ctx context.Context) error
}

// Claim is a task that this worker holds for as long as it extends the lease.
type Claim interface {
	// Task is the claimed task.
	Task() Task
	// Delivery counts the deliveries of the task: 1, 2, …
	Delivery() int
	// Lease is how long a claim lasts without Extend.
	Lease() time.Duration
	// Extend renews the lease.
	Extend(ctx context.Context) error
	// Begin says that the call is about to run. It returns ErrBegun if this dispatch of a call
	// that must not run twice began before, even if the queue has forgotten that. After any
	// other error it may be repeated.
	Begin(ctx context.Context) error
	// Unbegin takes Begin back: the call did nothing but ask a question.
	Unbegin(ctx context.Context) error
	// Report sends the end of the attempt. It may be called again.
	Report(ctx context.Context, r Report) error
	// Done takes the task off the queue. It waits for the confirmation, unless the call has reported its outcome
	// and may run again.
	Done(ctx context.Context) error
	// Release returns the task at once, for another worker.
	Release(ctx context.Context) error
	// OnCancel sets the function that is called, with the reason, when the call must stop, or at once if it
	// must stop already. A claim has one such function. It must not block.
	OnCancel(stop func(reason string))
}

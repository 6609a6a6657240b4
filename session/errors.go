package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
)

// ErrInvalidState matches every *InvalidStateError: the call does not fit the session's
// state. Nothing was recorded.
var ErrInvalidState = errors.New("invalid state")

// ErrCancelled matches every *CancelledError: the turn was cancelled.
var ErrCancelled = errors.New("cancelled")

// ErrClosed is returned by a Session after Close.
var ErrClosed = errors.New("session is closed")

// ErrNotFound is returned for a session that has no journal; start it first.
var ErrNotFound = journal.ErrNotFound

// ErrNoAnswer is returned when no driver took a command before the context ended. The
// command stays in the inbox and may still be handled: check the session before you retry,
// and check that a driver-node is running.
var ErrNoAnswer = errors.New("no driver answered")

// ErrLeft is returned by the methods of a Turn after its Close. The turn continues.
var ErrLeft = errors.New("interrupted before the turn ended")

// ErrUndecided is returned by an Approver that leaves the decision to others. The facade then
// stops with *ApprovalPendingError, as without an Approver.
var ErrUndecided = errors.New("undecided")

// ReasonPassedOver is the Reason of an InvalidStateError when the session handled the
// command without effect and its live refusal was lost.
const ReasonPassedOver = "passed_over"

// DeletedError is returned for a session that was deleted. Its ID cannot be used again.
type DeletedError struct {
	Session content.SessionID
	events.Deletion
}

// Error says when the session was deleted, by whom and why.
func (e *DeletedError) Error() string { return fmt.Sprintf("session %s %s", e.Session, e.Deletion) }

// InvalidStateError says why a call does not fit the session's state.
type InvalidStateError struct {
	Op, Reason string // Reason: approval_pending, handle_used, busy, no_approval, …
	Call       content.CallID
	Detail     string
}

// Error names the operation and the reason.
func (e *InvalidStateError) Error() string {
	s := fmt.Sprintf("invalid state: %s: %s", e.Op, e.Reason)
	if e.Call != "" {
		s += " (call " + string(e.Call) + ")"
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is makes every InvalidStateError an ErrInvalidState.
func (e *InvalidStateError) Is(target error) bool { return target == ErrInvalidState }

// ProviderError ends a turn whose model call failed; the session stays usable.
type ProviderError struct {
	Class      model.ErrorClass
	Code       string
	Message    string
	RetryAfter time.Duration
	Attempts   int
	Partial    *RunResult
}

// Error contains the class and the message.
func (e *ProviderError) Error() string {
	return fmt.Sprintf("model call failed (%s): %s", e.Class, e.Message)
}

// ToolError ends a turn whose tool failed, under FailRun.
type ToolError struct {
	Call          content.CallID
	Name          string // name of the tool
	Code, Message string // from its result
	Partial       *RunResult
}

// Error names the tool and the call.
func (e *ToolError) Error() string {
	return fmt.Sprintf("tool failed: %s (%s): %s", e.Name, e.Call, e.Message)
}

// MutatorError ends a turn whose mutator failed; the transcript is untouched.
type MutatorError struct {
	Mutator string
	Point   extension.Point
	Message string
	Partial *RunResult
}

// Error names the mutator and its point.
func (e *MutatorError) Error() string {
	return fmt.Sprintf("mutator failed: %s at %s: %s", e.Mutator, e.Point, e.Message)
}

// OutputError ends a turn whose answer did not fit the session's output schema, after
// the model was asked to correct it.
type OutputError struct {
	Message string // the last violation
	Partial *RunResult
}

// Error contains the message.
func (e *OutputError) Error() string { return "the answer does not fit its schema: " + e.Message }

// MaxTurnsError is returned by the facades when the limit on rounds ended the turn.
type MaxTurnsError struct {
	Max     int
	Partial *RunResult
}

// Error names the limit.
func (e *MaxTurnsError) Error() string { return fmt.Sprintf("max turns reached (%d)", e.Max) }

// UsageLimitError is returned by the facades when another limit ended the turn.
type UsageLimitError struct {
	Kind        events.LimitKind
	Used, Limit int64
	Partial     *RunResult
}

// Error names the limit, what was used, and the bound.
func (e *UsageLimitError) Error() string {
	return events.LimitReached{Kind: e.Kind, Used: e.Used, Limit: e.Limit}.Text()
}

// HookTerminatedError is returned by the facades when a hook ended the turn.
type HookTerminatedError struct {
	Point   extension.Point
	Hook    string
	Reason  string
	Partial *RunResult
}

// Error names the hook and its reason.
func (e *HookTerminatedError) Error() string {
	return fmt.Sprintf("terminated by hook %s at %s: %s", e.Hook, e.Point, e.Reason)
}

// CancelledError is returned by the facades when the turn was cancelled.
type CancelledError struct {
	Reason, Stage string
	Partial       *RunResult
}

// Error names the reason.
func (e *CancelledError) Error() string { return "cancelled: " + e.Reason }

// Is makes every CancelledError an ErrCancelled.
func (e *CancelledError) Is(target error) bool { return target == ErrCancelled }

// ApprovalPendingError is returned by the facades when an approval is pending and there is
// no Approver. The session waits: resolve the approval, then call Next, or Run without items.
type ApprovalPendingError struct {
	Approvals []events.Approval
	Partial   *RunResult
}

// Error names the first approval.
func (e *ApprovalPendingError) Error() string {
	if len(e.Approvals) == 0 {
		return "approval pending"
	}
	return fmt.Sprintf("approval pending: %s (call %s)", e.Approvals[0].Summary, e.Approvals[0].CallID)
}

// step returns the end of a turn as Next does: a *Finished, or the typed error of a failed turn.
func (e *turnEnd) step() (Step, error) {
	fin := &Finished{Result: resultOf(&e.Ended), transcript: e.transcript}
	if e.FinishReason != content.Errored {
		return fin, nil
	}
	return nil, e.failure(fin.run())
}

// failure returns the typed error of a failed turn.
func (e *turnEnd) failure(partial *RunResult) error {
	f, at := e.Error, e.Failure
	switch {
	case f == nil:
		return &ProviderError{Class: content.ClassOther, Message: "the turn failed", Partial: partial}
	case at.Call != "":
		text := strings.TrimPrefix(f.Message, fmt.Sprintf("%s (%s): ", at.Tool, at.Call))
		return &ToolError{Call: at.Call, Name: at.Tool, Code: at.Code, Message: text, Partial: partial}
	case at.Mutator != "":
		text := strings.TrimPrefix(f.Message, at.Mutator+" at "+at.Point+": ")
		return &MutatorError{Mutator: at.Mutator, Point: extension.Point(at.Point), Message: text, Partial: partial}
	case f.Class == "":
		return &OutputError{Message: f.Message, Partial: partial}
	}
	return &ProviderError{
		Class: f.Class, Code: f.Code, Message: f.Message, RetryAfter: at.RetryAfter, Attempts: at.Attempts, Partial: partial,
	}
}

package session

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Step is what Next returns: *ApprovalRequest, *AwaitingInput, *AfterToolResult or
// *Finished.
//
//sumtype:decl
type Step interface{ step() }

// Interrupt is a step that returns control before a turn has ended: all but *Finished.
type Interrupt interface {
	Step
	// IsBlocking reports whether Next refuses to continue until the step is answered. It
	// is true for *ApprovalRequest only.
	IsBlocking() bool
}

// handle lets a step be answered once, and only until the next step.
type handle struct {
	s     *Session
	stale *atomic.Bool
	used  atomic.Bool
}

func (h *handle) ask(ctx context.Context, op string, call content.CallID, c commands.Command) error {
	switch {
	case h.stale.Load():
		return &InvalidStateError{Op: op, Reason: "handle_stale", Call: call}
	case !h.used.CompareAndSwap(false, true):
		return &InvalidStateError{Op: op, Reason: "handle_used", Call: call}
	}
	err := h.s.ask(ctx, ulid.Make().String(), call, c)
	if err != nil {
		h.used.Store(false)
	}
	return err
}

// ApprovalRequest asks a person about one call. It is blocking: Next refuses until it is
// decided, by one of its methods or by Session.ResolveApproval.
type ApprovalRequest struct {
	events.Approval
	handle handle
}

// Approve lets the call run.
func (r *ApprovalRequest) Approve(ctx context.Context) error {
	return r.decide(ctx, "approve", commands.ResolveApproval{Approve: true})
}

// ApproveAlways lets the call run, and for the rest of the session every call of the
// tool that raises the same question: the same kind and the same scope.
func (r *ApprovalRequest) ApproveAlways(ctx context.Context) error {
	return r.decide(ctx, "approve", commands.ResolveApproval{Approve: true, Always: true})
}

// ApproveWithInput lets the call run with other arguments; the transcript keeps
// the model's. Input that does not fit the tool's schema is refused, and the
// approval stays open.
func (r *ApprovalRequest) ApproveWithInput(ctx context.Context, input json.RawMessage) error {
	return r.decide(ctx, "approve", commands.ResolveApproval{Approve: true, Input: input})
}

// Deny refuses the call. The model sees the denial.
func (r *ApprovalRequest) Deny(ctx context.Context) error {
	return r.decide(ctx, "deny", commands.ResolveApproval{})
}

// DenyWithReason refuses the call. The model sees the reason.
func (r *ApprovalRequest) DenyWithReason(ctx context.Context, reason string) error {
	return r.decide(ctx, "deny", commands.ResolveApproval{Reason: reason})
}

// IsBlocking is true.
func (r *ApprovalRequest) IsBlocking() bool { return true }

func (r *ApprovalRequest) decide(ctx context.Context, op string, c commands.ResolveApproval) error {
	c.Approval, c.By = r.ID, r.handle.s.config.By
	return r.handle.ask(ctx, op, r.CallID, c)
}

// AwaitingInput says that the session is idle.
type AwaitingInput struct {
	SessionID content.SessionID
	Reason    string
	handle    handle
}

// Submit submits input; the following Next starts a turn with it. It works once.
func (r *AwaitingInput) Submit(ctx context.Context, items ...content.Item) error {
	return r.handle.ask(ctx, "submit", "", commands.SubmitInput{Items: items})
}

// IsBlocking is false.
func (r *AwaitingInput) IsBlocking() bool { return false }

// AfterToolResult says that a round is complete. The following Next makes the next model
// call.
type AfterToolResult struct {
	SessionID     content.SessionID
	TurnID        content.TurnID
	TranscriptLen int
	Round         int
	Calls         []content.ToolCall
	Results       []content.ToolResult // in call order; a placeholder for a call in the background
	Compactions   []Compaction         // compactions of the transcript since the previous step
	handle        handle
}

// Submit submits input that joins before the next model call. It works once.
func (r *AfterToolResult) Submit(ctx context.Context, items ...content.Item) error {
	return r.handle.ask(ctx, "submit", "", commands.SubmitInput{Items: items})
}

// IsBlocking is false.
func (r *AfterToolResult) IsBlocking() bool { return false }

// Compaction is one compaction of the transcript. Both numbers are zero if the model's
// provider did it.
type Compaction struct{ OldTokens, NewTokens int64 }

// Finished is a turn's end. Next returns a failed turn as an error instead.
type Finished struct {
	Result      TurnResult
	Compactions []Compaction // compactions of the transcript since the previous step
	transcript  []content.Item
}

func (*ApprovalRequest) step() {}
func (*AwaitingInput) step()   {}
func (*AfterToolResult) step() {}
func (*Finished) step()        {}

// TurnResult is the outcome of a turn.
type TurnResult struct {
	TurnID       content.TurnID
	FinishReason content.FinishReason
	Items        []content.Item // all Assistant items of the turn
	Usage        content.Usage
	Rounds       int
	Metadata     content.Metadata
	Limit        *events.LimitReached // nil: no limit ended it
	Task         *TaskResult          // nil: no task
}

// Text is the text of the turn's last Assistant item.
func (r TurnResult) Text() string {
	if len(r.Items) == 0 {
		return ""
	}
	return r.Items[len(r.Items)-1].Text()
}

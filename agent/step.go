package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Step is what Next has to say. It is sealed: *ApprovalRequest, *AwaitingInput,
// *AfterToolResult and *Finished.
//
//sumtype:decl
type Step interface{ step() }

// Interrupt is a step with which the driver hands control back in the middle: all
// but *Finished.
type Interrupt interface {
	Step
	// IsBlocking reports whether Next refuses to go on until the step is
	// answered: true for *ApprovalRequest only.
	IsBlocking() bool
}

// Host takes the asks of step handles: a Driver, or a session of package client.
type Host interface {
	Ask(ctx context.Context, c commands.Command) error
}

// handle lets a step be answered once, and only until the next step.
type handle struct {
	host  Host
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
	if err := h.host.Ask(ctx, c); err != nil {
		h.used.Store(false)
		if e, ok := errors.AsType[*InvalidStateError](err); ok && e.Call == "" {
			e.Call = call
		}
		return err
	}
	return nil
}

// ApprovalRequest asks a person about one call. It is blocking: Next refuses until
// it is decided, by the handle or by any of the driver's Resolve methods.
type ApprovalRequest struct {
	events.Approval
	handle handle
}

// Approve lets the call run.
func (r *ApprovalRequest) Approve(ctx context.Context) error {
	return r.decide(ctx, "approve", commands.ResolveApproval{Approve: true})
}

// ApproveAlways lets the call run, and for the rest of the session every call of the
// tool about which the same is asked: the same kind and the same scope.
func (r *ApprovalRequest) ApproveAlways(ctx context.Context) error {
	return r.decide(ctx, "approve", commands.ResolveApproval{Approve: true, Always: true})
}

// ApproveWithInput lets the call run with other arguments; the transcript keeps
// the model's. Input that does not fit the tool's schema is refused, and the
// approval stays open.
func (r *ApprovalRequest) ApproveWithInput(ctx context.Context, input json.RawMessage) error {
	return r.decide(ctx, "approve", commands.ResolveApproval{Approve: true, Input: input})
}

// Deny refuses the call; the model is told.
func (r *ApprovalRequest) Deny(ctx context.Context) error {
	return r.decide(ctx, "deny", commands.ResolveApproval{})
}

// DenyWithReason refuses the call; the model is told the reason.
func (r *ApprovalRequest) DenyWithReason(ctx context.Context, reason string) error {
	return r.decide(ctx, "deny", commands.ResolveApproval{Reason: reason})
}

// IsBlocking is true.
func (r *ApprovalRequest) IsBlocking() bool { return true }

func (r *ApprovalRequest) decide(ctx context.Context, op string, c commands.ResolveApproval) error {
	c.Approval = r.ID
	return r.handle.ask(ctx, op, r.CallID, c)
}

// AwaitingInput says that there is nothing to do.
type AwaitingInput struct {
	SessionID content.SessionID
	Reason    string
	handle    handle
}

// Submit brings input; the following Next starts a turn with it. It works once.
func (r *AwaitingInput) Submit(ctx context.Context, items ...content.Item) error {
	return r.handle.ask(ctx, "submit", "", commands.SubmitInput{Items: items})
}

// IsBlocking is false.
func (r *AwaitingInput) IsBlocking() bool { return false }

// AfterToolResult says that a round is complete; the following Next goes on with
// the next model call.
type AfterToolResult struct {
	SessionID     content.SessionID
	TurnID        content.TurnID
	TranscriptLen int
	Round         int
	Calls         []content.ToolCall
	Results       []content.ToolResult // in call order; a placeholder for what runs in the background
	handle        handle
}

// Submit brings input that joins before the next model call. It works once.
func (r *AfterToolResult) Submit(ctx context.Context, items ...content.Item) error {
	return r.handle.ask(ctx, "submit", "", commands.SubmitInput{Items: items})
}

// IsBlocking is false.
func (r *AfterToolResult) IsBlocking() bool { return false }

// Finished is a turn's end, for every reason but error, which Next returns as an
// error.
type Finished struct{ Result TurnResult }

func (*ApprovalRequest) step() {}
func (*AwaitingInput) step()   {}
func (*AfterToolResult) step() {}
func (*Finished) step()        {}

// TurnResult is what came of a turn.
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

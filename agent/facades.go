package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// RunResult is what Run returns.
type RunResult struct {
	Response string         // text of the turn's last Assistant item
	Messages []content.Item // the whole transcript
	Usage    content.Usage  // of the turn
	Turns    int            // model calls of the turn
	Turn     TurnResult
}

func runResult(s *loop.State, r TurnResult) *RunResult {
	return &RunResult{Response: r.Text(), Messages: slices.Clip(s.Transcript), Usage: r.Usage, Turns: r.Rounds, Turn: r}
}

// RunText runs one turn with a text from the user to its end.
func (d *Driver) RunText(ctx context.Context, text string) (*RunResult, error) {
	return d.Run(ctx, content.UserText(text))
}

// Run submits items and drives the session until the turn has ended, approvals
// answered by Config.Approver. The end of ctx cancels the turn. Without items it
// goes on with what is open. A turn that did not end in its own time is one of
// *CancelledError, *MaxTurnsError, *UsageLimitError, *HookTerminatedError,
// *ApprovalPendingError, *ProviderError, *ToolError or *MutatorError, each with
// the partial result.
func (d *Driver) Run(ctx context.Context, items ...content.Item) (*RunResult, error) {
	if ctx.Err() != nil {
		return nil, &CancelledError{Reason: contextReason(ctx)}
	}
	if len(items) > 0 {
		if err := d.Send(ctx, Steer, items...); err != nil {
			return nil, err
		}
	}
	return d.toEnd(ctx, len(items) == 0)
}

// toEnd drives until the turn has ended; the end of ctx cancels it, also if it comes
// before the turn has begun.
func (d *Driver) toEnd(ctx context.Context, resume bool) (*RunResult, error) {
	for {
		step, err := d.toStep(ctx, resume)
		if err != nil {
			return nil, err
		}
		if fin, ok := step.(*Finished); ok {
			return d.conclude(fin.Result)
		}
	}
}

func contextReason(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errConsumerLeft) {
		return errConsumerLeft.Error()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "deadline"
	}
	return "context_done"
}

// toStep loops over Next until a round of tools is complete, or the turn. With
// resume, a session that is idle ends it too.
func (d *Driver) toStep(ctx context.Context, resume bool) (Step, error) {
	stop := context.AfterFunc(ctx, func() {
		// Without an open turn there is nothing to cancel yet: Next looks again.
		_ = d.Cancel(context.WithoutCancel(ctx), contextReason(ctx))
	})
	defer stop()
	for {
		step, err := d.next(context.WithoutCancel(ctx), ctx)
		if err != nil {
			return nil, err
		}
		switch step := step.(type) {
		case *AfterToolResult:
			return step, nil
		case *ApprovalRequest:
			if err := d.approve(ctx, step); err != nil {
				return nil, err
			}
		case *AwaitingInput:
			if resume {
				return nil, &InvalidStateError{Op: "run", Reason: "empty_input", Detail: "there is nothing to go on with"}
			}
			return nil, &InvalidStateError{Op: "run", Reason: "cancelled_before_start"}
		case *Finished:
			return step, nil
		}
	}
}

// approve asks Config.Approver. The end of ctx cancels the turn, and the approval
// with it: what the approver says then counts no more.
func (d *Driver) approve(ctx context.Context, r *ApprovalRequest) error {
	if d.agent.cfg.Approver == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		return &ApprovalPendingError{Approvals: d.state.PendingApprovals()}
	}
	ok, reason, err := d.agent.cfg.Approver.Approve(ctx, r.Approval)
	if ctx.Err() != nil {
		return d.cancelIfOver(context.WithoutCancel(ctx), ctx)
	}
	if err != nil {
		return err
	}
	err = d.ResolveApprovalFor(ctx, r.CallID, Decision{Approve: ok, Reason: reason})
	if errors.Is(err, ErrInvalidState) {
		return nil // somebody else was faster
	}
	return err
}

// conclude turns a turn's end into what the facades return.
func (d *Driver) conclude(r TurnResult) (*RunResult, error) {
	d.mu.Lock()
	res := runResult(d.state, r)
	d.mu.Unlock()
	return res, Conclude(res)
}

// concludeLast is conclude for the turn that ended last, which may have failed.
func (d *Driver) concludeLast() (*RunResult, error) {
	d.mu.Lock()
	last := *d.state.Last
	if last.FinishReason == content.Errored {
		defer d.mu.Unlock()
		return nil, turnError(d.state, &last)
	}
	d.mu.Unlock()
	return d.conclude(resultOf(&last))
}

// Conclude is the error, if any, that a facade returns for a turn that is Finished.
func Conclude(res *RunResult) error {
	md, limit := res.Turn.Metadata, res.Turn.Limit
	switch res.Turn.FinishReason {
	case content.Cancelled:
		return &CancelledError{Reason: md.Text(content.MetaInterruptReason), Stage: md.Text(content.MetaInterruptStage), Partial: res}
	case content.Limit:
		if limit != nil && limit.Kind != events.LimitRounds {
			return &UsageLimitError{Kind: limit.Kind, Used: limit.Used, Limit: limit.Limit, Partial: res}
		}
		e := &MaxTurnsError{Partial: res}
		if limit != nil {
			e.Max = int(limit.Limit)
		}
		return e
	case content.Terminated:
		return &HookTerminatedError{
			Point: extension.Point(md.Text(content.MetaHookPoint)), Hook: md.Text(content.MetaHook),
			Reason: md.Text(content.MetaHookReason), Partial: res,
		}
	case content.Completed, content.ToolCalls, content.MaxTokens, content.Blocked, content.Compaction, content.Errored, content.Other:
	}
	return nil
}

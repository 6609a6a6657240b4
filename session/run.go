package session

import (
	"context"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
)

// RunResult is what Run returns.
type RunResult struct {
	Response string        // text of the turn's last Assistant item
	Usage    content.Usage // usage of the turn
	Turns    int           // number of model calls in the turn
	Turn     TurnResult

	transcript []content.Item
}

// Messages returns a copy of the whole transcript at the turn's end.
func (res *RunResult) Messages() []content.Item { return content.DetachItems(res.transcript) }

// Outcome returns what Run returns for the turn.
func (f *Finished) Outcome() (*RunResult, error) {
	res := f.run()
	return res, res.err()
}

func (f *Finished) run() *RunResult {
	r := f.Result
	return &RunResult{Response: r.Text(), Usage: r.Usage, Turns: r.Rounds, Turn: r, transcript: f.transcript}
}

// RunText submits a user's text and runs the turn to its end.
func (s *Session) RunText(ctx context.Context, text string) (*RunResult, error) {
	return s.Run(ctx, content.UserText(text))
}

// Run submits items and runs the turn that accepts them to its end; Config.Approver decides
// approvals. Without items it continues the open turn. When ctx ends, the turn is cancelled.
// If the turn did not complete, Run returns a *CancelledError, *MaxTurnsError,
// *UsageLimitError, *HookTerminatedError, *ApprovalPendingError, *ProviderError, *ToolError,
// *MutatorError or *OutputError with the partial result. When Run returns ErrInvalidState,
// nothing was submitted.
func (s *Session) Run(ctx context.Context, items ...content.Item) (*RunResult, error) {
	t, err := s.turn(ctx, Input{Items: items})
	if err != nil {
		return nil, err
	}
	return t.Wait(ctx)
}

// turn returns the turn of an input, or the open one if the input is empty.
func (s *Session) turn(ctx context.Context, in Input) (*Turn, error) {
	if len(in.Items) > 0 {
		return s.Submit(ctx, in)
	}
	if ctx.Err() != nil {
		return nil, &CancelledError{Reason: contextReason(ctx)}
	}
	if err := s.passable("run"); err != nil {
		return nil, err
	}
	return s.Open(), nil
}

// err returns the error, if any, that a facade returns for the turn.
func (res *RunResult) err() error {
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

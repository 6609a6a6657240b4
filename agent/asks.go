package agent

import (
	"context"
	"errors"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
)

// Ask takes an ask from any goroutine. Step handles use it; a refusal is an
// *InvalidStateError.
func (d *Driver) Ask(ctx context.Context, c commands.Command) error {
	return d.ask(ctx, "", c)
}

// ask is Ask for an ask about a call.
func (d *Driver) ask(ctx context.Context, call content.CallID, c commands.Command) error {
	err := d.command(ctx, c)
	if e, ok := errors.AsType[*InvalidStateError](err); ok {
		e.Call = call
	}
	d.wake()
	return err
}

// wake lets a Next that waits look again.
func (d *Driver) wake() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// Decision decides an approval.
type Decision struct {
	Approve bool
	Reason  string
	By      string // "": the host process
	Always  bool   // with Approve: the same question about the same tool is not asked again in this session
}

func (v Decision) command() commands.ResolveApproval {
	return commands.ResolveApproval{Approve: v.Approve, Reason: v.Reason, By: v.By, Always: v.Always}
}

// ResolveApproval decides the only undecided approval; with none or several it
// returns ErrInvalidState.
func (d *Driver) ResolveApproval(ctx context.Context, v Decision) error {
	return d.Ask(ctx, v.command())
}

// ResolveApprovalFor decides a call's oldest undecided approval.
func (d *Driver) ResolveApprovalFor(ctx context.Context, call content.CallID, v Decision) error {
	c := v.command()
	c.Call = call
	return d.ask(ctx, call, c)
}

// ResolveApprovalForWithPatchedInput approves a call's oldest undecided approval
// with other arguments. The transcript keeps the model's.
func (d *Driver) ResolveApprovalForWithPatchedInput(ctx context.Context, call content.CallID, input []byte) error {
	return d.ask(ctx, call, commands.ResolveApproval{Call: call, Approve: true, Input: input})
}

// Grant lets the calls of the tools that the patterns name run for the rest of the
// session, as far as Config.Rules are asked: a decision in advance. What a policy denies
// or asks is not touched.
func (d *Driver) Grant(ctx context.Context, patterns ...string) error {
	return d.Ask(ctx, commands.AllowTools{Tools: patterns})
}

// SetNextTurnCache sets the cache request of the next model call only. Any
// goroutine may call it.
func (d *Driver) SetNextTurnCache(ctx context.Context, c model.CacheRequest) error {
	return d.Ask(ctx, commands.SetNextTurnCache{Cache: c})
}

// OnBusy says what becomes of input that arrives while a turn is open.
type OnBusy = events.OnBusy

// The policies for concurrent input.
const (
	Steer         = events.Steer     // joins at the next round boundary
	Queue         = events.Queue     // starts the next turn
	InterruptTurn = events.Interrupt // cancels the open turn, then runs
	Reject        = events.Reject    // is refused: ErrInvalidState
)

// Send brings input from any goroutine.
func (d *Driver) Send(ctx context.Context, b OnBusy, items ...content.Item) error {
	return d.Ask(ctx, commands.SubmitInput{Items: items, OnBusy: b})
}

// Cancel ends the open turn, from any goroutine. The empty reason is
// user_cancelled. Without an open turn it returns ErrInvalidState.
func (d *Driver) Cancel(ctx context.Context, reason string) error {
	return d.Ask(ctx, commands.Cancel{Scope: commands.ScopeTurn, Reason: reason})
}

package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/session"
)

// ignore calls Next although an approval is open. Only its expiry can have settled it.
func (h *host) ignore(ctx context.Context) {
	_ = nap(ctx, h.dice.upTo(3*time.Minute))
	asked := h.asked
	due := asked.ExpiresAt != 0 && asked.ExpiresAt <= content.TimeOf(time.Now())
	step, err := h.driver.Next(ctx)
	if reason(err) != "approval_pending" {
		h.took(step, err)
		return
	}
	h.note("ignored %s: %v", asked.ID, err)
	h.w.saw("next error: approval_pending")
	if due {
		h.w.wrong("%s: approval %s is still pending %s after it expired", h.id, asked.ID, time.Since(asked.ExpiresAt.Std()))
	}
}

// reason returns the reason of an InvalidStateError, or "".
func reason(err error) string {
	if e, ok := errors.AsType[*session.InvalidStateError](err); ok {
		return e.Reason
	}
	return ""
}

// settleOldest resolves an approval whose step is lost.
func (h *host) settleOldest(ctx context.Context) {
	for _, a := range h.driver.Snapshot().PendingApprovals {
		h.ask("resolve by call", h.driver.ResolveApproval(ctx, session.Decision{Call: a.CallID, Approve: h.dice.one(2)}))
		return
	}
}

// answer decides the blocking approval, through its handle or through the session.
func (h *host) answer(ctx context.Context) {
	a, c := h.asked, looptest.Person{Throw: h.dice.IntN}.Decide(events.Approval{ID: h.asked.ID, CallID: h.asked.CallID})
	switch {
	case h.dice.one(2):
		h.tell(ctx, h.driver, c)
	case !c.Approve && c.Reason == "":
		h.ask(decided(c), a.Deny(ctx))
	case !c.Approve:
		h.ask(decided(c), a.DenyWithReason(ctx, c.Reason))
	case c.Input != nil:
		h.ask(decided(c), a.ApproveWithInput(ctx, c.Input))
	default:
		h.ask("approve", a.Approve(ctx))
	}
	if h.dice.one(5) {
		h.ask("approve", a.Approve(ctx))
	}
}

// decided names a decision.
func decided(c commands.ResolveApproval) string {
	switch {
	case !c.Approve && c.Reason == "":
		return "deny"
	case !c.Approve:
		return "deny with a reason"
	case c.Input != nil:
		return "approve with input"
	case c.Always:
		return "approve for always"
	}
	return "approve"
}

// meanwhile sends a command from another goroutine while the host steps.
func (h *host) meanwhile(ctx context.Context) {
	d, driver, wait := dice{h.w.dice("meanwhile", h.id, h.dice.Uint64()).Rand}, h.driver, h.dice.upTo(among(h.dice, time.Millisecond, 2*time.Second, 20*time.Second))
	h.background.Go(func() {
		if nap(ctx, wait) == nil {
			h.askAnything(context.WithoutCancel(ctx), d, driver)
		}
	})
}

func (h *host) mischief(ctx context.Context) { h.askAnything(ctx, h.dice, h.driver) }

// send sends input without a step.
func (h *host) send(ctx context.Context) {
	h.tell(ctx, h.driver, looptest.Person{Throw: h.dice.IntN}.Submit())
}

// askAnything sends a command that may make no sense now. It is safe for concurrent use.
func (h *host) askAnything(ctx context.Context, d dice, of *session.Session) {
	now := of.Snapshot()
	view := looptest.View{Approvals: now.PendingApprovals}
	for _, it := range slices.Backward(now.Transcript) {
		if calls := it.Calls(); len(calls) > 0 && !d.one(6) { // the last ones may still run
			for _, c := range calls {
				view.Calls = append(view.Calls, c.ID)
			}
			break
		}
	}
	h.tell(ctx, of, looptest.Person{Throw: d.IntN}.Ask(view))
}

// tell sends a command of a person with the method of the session for it.
func (h *host) tell(ctx context.Context, to *session.Session, c commands.Command) {
	what := commands.NameOf(c)
	var err error
	switch c := c.(type) { //nolint:gochecksumtype // others have no method of their own
	case commands.SubmitInput:
		text, item := h.text()
		what = "send " + cmp.Or(string(c.OnBusy), "steer")
		err = to.Send(ctx, c.OnBusy, item)
		h.settle(text, err)
	case commands.ResolveApproval:
		what = decided(c)
		err = to.ResolveApproval(ctx, session.Decision{Call: c.Call, Approve: c.Approve, Always: c.Always, Input: c.Input, Reason: c.Reason, By: "ann"})
	case commands.SetNextTurnCache:
		err = to.SetNextTurnCache(ctx, c.Cache)
	case commands.AllowTools:
		err = to.Grant(ctx, c.Tools...)
	case commands.Cancel:
		what = "cancel the " + c.Scope
		if c.Scope == commands.ScopeTurn {
			err = to.Cancel(ctx, c.Reason)
		} else {
			err = to.Ask(ctx, c)
		}
	default:
		err = to.Ask(ctx, c)
	}
	h.ask(what, err)
}

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

// answer resolves the blocking approval in one of many ways.
func (h *host) answer(ctx context.Context) {
	a, good, bad := h.asked, []byte(`{"n":2}`), []byte(`{"n":"y"}`)
	switch h.dice.IntN(10) {
	case 0:
		h.ask("deny", a.Deny(ctx))
	case 1:
		h.ask("deny with a reason", a.DenyWithReason(ctx, "no"))
	case 2:
		h.ask("approve with input", a.ApproveWithInput(ctx, good))
	case 3:
		h.ask("approve with bad input", a.ApproveWithInput(ctx, bad))
	case 4:
		h.ask("resolve the only one", h.driver.ResolveApproval(ctx, session.Decision{Approve: true, By: "ann"}))
	case 5:
		h.ask("resolve by call", h.driver.ResolveApproval(ctx, session.Decision{Call: a.CallID, By: "bob", Reason: "no"}))
	case 6:
		h.ask("resolve with input", h.driver.ResolveApproval(ctx, session.Decision{Call: a.CallID, Approve: true, Input: good}))
	case 7:
		h.ask("approve for always", h.driver.ResolveApproval(ctx, session.Decision{Call: a.CallID, Approve: true, Always: true}))
	default:
		h.ask("approve", a.Approve(ctx))
	}
	if h.dice.one(5) {
		h.ask("approve", a.Approve(ctx))
	}
}

// meanwhile sends a command from another goroutine while the host steps.
func (h *host) meanwhile(ctx context.Context) {
	d, driver, wait := dice{h.w.dice("meanwhile", h.id, h.dice.Uint64()).Rand}, h.driver, h.dice.upTo(among(h.dice, time.Millisecond, 2*time.Second, 20*time.Second))
	h.beside.Go(func() {
		if nap(ctx, wait) == nil {
			h.askAnything(context.WithoutCancel(ctx), d, driver)
		}
	})
}

func (h *host) mischief(ctx context.Context) { h.askAnything(ctx, h.dice, h.driver) }

func (h *host) send(ctx context.Context) { h.sendTo(ctx, h.dice, h.driver) }

func (h *host) sendTo(ctx context.Context, d dice, to *session.Session) {
	busy := pick(d,
		choice[session.OnBusy]{3, session.Steer}, choice[session.OnBusy]{2, session.Queue},
		choice[session.OnBusy]{1, session.InterruptTurn}, choice[session.OnBusy]{1, session.Reject},
	)
	text, item := h.text()
	err := to.Send(ctx, busy, item)
	h.settle(text, err)
	h.ask("send "+cmp.Or(string(busy), "steer"), err)
}

// askAnything sends a command that may make no sense now. It is safe for concurrent use.
func (h *host) askAnything(ctx context.Context, d dice, of *session.Session) {
	switch d.IntN(13) {
	case 10, 11, 12:
		h.ask("detach", of.Ask(ctx, commands.DetachCall{Call: h.anyCall(d, of)}))
	case 0, 1:
		h.ask("cancel the turn", of.Cancel(ctx, among(d, "", "because")))
	case 2, 3:
		h.ask("cancel a call", of.Ask(ctx, commands.Cancel{Scope: commands.ScopeCall, Call: h.anyCall(d, of)}))
	case 4:
		h.ask("cancel the session", of.Ask(ctx, commands.Cancel{Scope: commands.ScopeSession}))
	case 5, 6:
		h.ask("resolve the only one", of.ResolveApproval(ctx, session.Decision{Approve: d.one(2)}))
	case 7:
		mode := among(d, "best_effort", "disabled", "nonsense")
		h.ask("set the cache", of.SetNextTurnCache(ctx, content.CacheRequest{Mode: mode}))
	case 8:
		h.ask("start a task", of.Ask(ctx, commands.StartTask{Spec: events.TaskSpec{Goal: among(d, "a goal", "")}}))
	case 9:
		h.sendTo(ctx, d, of)
	}
}

// anyCall returns a call of the transcript, more likely a late one, or an unknown ID.
func (h *host) anyCall(d dice, of *session.Session) content.CallID {
	for _, it := range slices.Backward(of.Snapshot().Transcript) {
		if calls := it.Calls(); len(calls) > 0 && !d.one(6) {
			return calls[d.IntN(len(calls))].ID
		}
	}
	return "no-such-call"
}

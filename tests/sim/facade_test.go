package sim

import (
	"context"
	"errors"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
)

// facade has a turn run to its end, or cut off.
func (h *host) facade(ctx context.Context) {
	limit := h.dice.upTo(among(h.dice, time.Millisecond, 30*time.Second, 5*time.Minute))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	late := time.AfterFunc(limit+10*time.Minute, func() { h.w.wrong("%s: a facade went on after its context ended", h.id) })
	defer late.Stop()
	if h.dice.one(3) {
		h.meanwhile(ctx)
	}
	h.asked = nil
	text, item := h.text()
	var err error
	if h.dice.one(3) {
		err = h.stream(ctx, item)
		h.note("stream: %v", err)
	} else {
		_, err = h.driver.Run(ctx, item)
		h.note("run: %v", err)
	}
	if err == nil {
		h.settle(text, nil)
	}
	h.concluded(err)
}

// stream listens for a while.
func (h *host) stream(ctx context.Context, item content.Item) error {
	left := h.dice.IntN(12)
	for _, err := range h.driver.Stream(ctx, item) {
		if err != nil {
			return err
		}
		if left--; left < 0 {
			h.w.saw("facade: left a stream")
			return errLeft
		}
	}
	return nil
}

var errLeft = errors.New("left the stream")

// concluded judges the error of a facade.
func (h *host) concluded(err error) {
	var (
		cancelled *agent.CancelledError
		rounds    *agent.MaxTurnsError
		usage     *agent.UsageLimitError
		hook      *agent.HookTerminatedError
		pending   *agent.ApprovalPendingError
	)
	var what string
	switch {
	case err == nil:
		what = "done"
	case errors.As(err, &cancelled):
		what = "cancelled"
	case errors.As(err, &rounds), errors.As(err, &usage):
		what = "limit"
	case errors.As(err, &hook):
		what = "terminated"
	case errors.As(err, &pending):
		what = "approval pending"
	case errors.Is(err, errApprover):
		what = "approver is away"
	case errors.Is(err, errLeft):
		h.trouble(true) // the driver may have died over it
		what = "left"
	default:
		h.failed("facade", err)
		return
	}
	h.w.saw("facade: " + what)
}

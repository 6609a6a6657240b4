package sim

import (
	"context"
	"errors"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/session"
)

// facade runs a turn to its end, or until its context ends.
func (h *host) facade(ctx context.Context) {
	limit := h.dice.upTo(among(h.dice, time.Millisecond, 30*time.Second, 5*time.Minute))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer h.overdue(context.WithoutCancel(ctx), limit)()
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

// overdue closes a driver that keeps running long after the end of its context.
func (h *host) overdue(ctx context.Context, limit time.Duration) (stop func()) {
	driver := h.driver
	late := time.AfterFunc(limit+10*time.Minute, func() {
		h.w.wrong("%s: a facade went on after its context ended", h.id)
		_ = driver.Close(ctx)
	})
	return func() { late.Stop() }
}

// stream reads from a stream for a while.
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

// task runs a task to its end, or until its context ends.
func (h *host) task(ctx context.Context) {
	limit := h.dice.upTo(among(h.dice, 30*time.Second, 5*time.Minute, 20*time.Minute))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer h.overdue(context.WithoutCancel(ctx), limit)()
	if h.dice.one(3) {
		h.meanwhile(ctx)
	}
	h.asked = nil
	t := session.Task{Goal: "a goal with a gate", Verifier: gate{h}, MaxRetries: h.dice.IntN(3)}
	if h.dice.one(4) {
		t.Verifier = nil
	}
	res, err := h.driver.RunTask(ctx, t)
	h.note("task: %+v %v", res, err)
	if res != nil {
		h.w.saw("task: " + res.Status)
	}
	h.concluded(err)
}

// gate is a verifier with random results.
type gate struct{ h *host }

// Verify passes, fails or breaks.
func (g gate) Verify(ctx context.Context, _ string) (pass bool, output string, err error) {
	d := g.h.w.dice("gate", g.h.id, time.Since(g.h.w.begun))
	if g.h.w.calmed() {
		return true, "calm", nil
	}
	switch d.IntN(10) {
	case 0:
		panic("the gate broke")
	case 1:
		return false, "", errors.New("the gate is down")
	case 2:
		if err := g.h.w.hang(ctx); err != nil {
			return false, "", err
		}
	case 3, 4:
		return true, "it will do", nap(ctx, d.upTo(time.Minute))
	case 5, 6, 7:
		return true, "fine", nil
	}
	return false, "not yet", nil
}

// memory recalls something, or fails.
type memory struct {
	w  *world
	id content.SessionID
}

// Recall returns one item.
func (m memory) Recall(ctx context.Context, goal string) ([]content.Item, error) {
	d := m.w.dice("recall", m.id, time.Since(m.w.begun))
	return []content.Item{content.NewItem(content.Context, content.TextPart("known about "+goal))}, m.at(ctx, d)
}

// Remember stores nothing.
func (m memory) Remember(ctx context.Context, _, _ string) error {
	d := m.w.dice("remember", m.id, time.Since(m.w.begun))
	return m.at(ctx, d)
}

func (m memory) at(ctx context.Context, d dice) error {
	if m.w.calmed() {
		return nil
	}
	switch d.IntN(4) {
	case 0:
		return errMemory
	case 1:
		return nap(ctx, d.upTo(time.Minute))
	}
	return nil
}

var errMemory = errors.New("the memory is away")

// concluded checks the error of a facade.
func (h *host) concluded(err error) {
	var (
		cancelled *session.CancelledError
		rounds    *session.MaxTurnsError
		usage     *session.UsageLimitError
		hook      *session.HookTerminatedError
		pending   *session.ApprovalPendingError
		exhausted *session.VerifyExhaustedError
	)
	var what string
	switch {
	case err == nil:
		what = "done"
	case errors.As(err, &exhausted):
		what = "verification failed"
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
		h.trouble(true) // the driver may have died while handling it
		what = "left"
	default:
		h.failed("facade", err)
		return
	}
	h.w.saw("facade: " + what)
}

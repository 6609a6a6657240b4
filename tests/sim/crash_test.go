package sim

import (
	"context"
	"errors"
	"time"

	"github.com/turnlog/turnlog/session"
)

// crash abandons a driver in the middle of its work and starts another. The old one finds out
// when it writes next.
func (h *host) crash(ctx context.Context) {
	h.w.saw("action: crash")
	old := h.driver
	patience, life := h.dice.upTo(5*time.Minute), h.dice.upTo(among(h.dice, time.Second, 20*time.Second))
	h.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		step, err := old.Next(ctx)
		h.note("the old driver: %s %v", describe(step), err)
		if err != nil && inTrouble(err) {
			h.w.saw("fenced in Next")
		}
	})
	_ = nap(ctx, life)
	h.start(ctx)
}

// takeOver starts a second driver while the first one is idle. The first one finds out with its
// next command.
func (h *host) takeOver(ctx context.Context) {
	h.w.saw("action: take over")
	old := h.driver
	h.start(ctx)
	text, item := h.text()
	err := old.Send(ctx, session.Steer, item)
	h.settle(text, err)
	h.note("the old driver is sent input: %v", err)
	if err == nil {
		h.w.wrong("%s: a driver that lost its session took input", h.id)
	}
	if _, err := old.Next(ctx); err == nil {
		h.w.wrong("%s: a driver that knows that it lost its session goes on", h.id)
	}
}

// reopen closes the driver properly, once or twice.
func (h *host) reopen(ctx context.Context) {
	h.w.saw("action: close")
	for range 1 + h.dice.IntN(2) {
		if err := h.driver.Close(ctx); err != nil {
			h.w.wrong("%s: Close = %v", h.id, err)
		}
	}
	if _, err := h.driver.Next(ctx); !errors.Is(err, session.ErrClosed) {
		h.w.wrong("%s: Next after Close = %v", h.id, err)
	}
	h.start(ctx)
}

func (h *host) changeTools(context.Context) {
	h.w.saw("action: change tools")
	if h.extraOn = !h.extraOn; h.extraOn {
		h.source.Add(h.w.extra())
	} else {
		h.source.Remove("extra")
	}
	h.note("extra is on offer: %v", h.extraOn)
}

// breakSource makes the next one or two requests to the tool source fail.
func (h *host) breakSource(context.Context) {
	h.w.saw("action: break source")
	for range 1 + h.dice.IntN(2) {
		h.source.down <- struct{}{}
	}
	h.note("the source will be down %d times", len(h.source.down))
}

// peek compares the driver's view with a fold of its journal.
func (h *host) peek(ctx context.Context) {
	h.background.Wait() // or the old driver of a crash may write between the two
	if met := h.trouble(false); !met {
		h.w.saw("action: peek")
		h.compare(ctx, h.driver)
	} else {
		h.trouble(met)
	}
}

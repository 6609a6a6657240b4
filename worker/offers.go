package worker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Offers advertises a worker's tools.
type Offers interface {
	// Advertise makes or renews the offer, which otherwise expires. A worker without tools takes no
	// calls, but may still run some.
	Advertise(ctx context.Context, o task.Offer) error
	// Withdraw removes the offer.
	Withdraw(ctx context.Context) error
}

// listTools lists the sources again.
func (w *Worker) listTools(ctx context.Context) error {
	c, err := tool.Sample(ctx, w.cfg.Tools, tool.FirstWins)
	if err == nil {
		w.tools.Store(&c)
	}
	return err
}

// lookup finds a tool. An unknown name may belong to a new tool, so it lists the sources again.
func (w *Worker) lookup(ctx context.Context, name string) (tool.Offer, bool) {
	if o, ok := w.tools.Load().Lookup(name); ok {
		return o, true
	}
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	if w.listTools(ctx) != nil {
		return tool.Offer{}, false
	}
	return w.tools.Load().Lookup(name)
}

const (
	advertiseEvery = 3 * time.Second
	advertiseAgain = 200 * time.Millisecond // the first time; sources that connect in the background have tools soon after the start
	offerTimeout   = 2 * time.Second        // for listing the sources once, and for one request to the Offers
)

// advertise keeps the tools and the offer current until ctx ends. Then it makes an empty offer: drivers
// send no more calls, and know that running calls are not lost. When the last call has ended, it
// withdraws the offer.
func (w *Worker) advertise(ctx, idle context.Context) {
	wait := advertiseAgain
	timer := time.NewTimer(wait)
	defer timer.Stop()
	failing, drains := false, ctx.Done()
	for {
		err := w.offer(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Warn("tools not advertised", zap.Error(err))
		}
		failing = err != nil
		select {
		case <-timer.C:
			wait = min(2*wait, advertiseEvery)
			timer.Reset(wait)
		case <-drains:
			drains = nil
		case <-idle.Done():
			w.withdraw(context.WithoutCancel(ctx))
			return
		}
	}
}

func (w *Worker) offer(ctx context.Context) error {
	o := task.Offer{Slots: w.cfg.Slots, Running: int(w.running.Load())}
	if ctx.Err() == nil {
		listing, cancel := context.WithTimeout(ctx, offerTimeout)
		defer cancel()
		if err := w.listTools(listing); err != nil {
			return err
		}
		o.Tools = w.tools.Load().Specs()
	}
	if w.cfg.Offers == nil {
		return nil
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), offerTimeout)
	defer cancel()
	return w.cfg.Offers.Advertise(soon, o)
}

func (w *Worker) withdraw(ctx context.Context) {
	if w.cfg.Offers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	if err := w.cfg.Offers.Withdraw(ctx); err != nil {
		w.log.Warn("tools not withdrawn", zap.Error(err)) // the offer expires
	}
}

package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
)

// Offers advertises a worker's tools.
type Offers interface {
	// Advertise makes or renews the offer, which otherwise expires.
	Advertise(ctx context.Context, tools []tool.Spec) error
	// Withdraw removes the offer.
	Withdraw(ctx context.Context) error
}

// toolCache holds the last list of the sources' tools.
type toolCache struct {
	sources []tool.Source
	current atomic.Pointer[tool.Catalog]
}

// refresh lists the sources again.
func (s *toolCache) refresh(ctx context.Context) error {
	c, err := tool.Sample(ctx, s.sources, tool.FirstWins)
	if err != nil {
		return err
	}
	s.current.Store(&c)
	return nil
}

func (s *toolCache) specs() []tool.Spec { return s.current.Load().Specs() }

// lookup finds a tool. An unknown name may belong to a new tool, so it lists the sources again.
func (s *toolCache) lookup(ctx context.Context, name string) (tool.Offer, bool) {
	if o, ok := s.current.Load().Lookup(name); ok {
		return o, true
	}
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	if s.refresh(ctx) != nil {
		return tool.Offer{}, false
	}
	return s.current.Load().Lookup(name)
}

// offerTimeout bounds one listing of the sources and one request to the Offers.
const offerTimeout = 2 * time.Second

// advertise keeps the tools and the offer current until ctx ends, then withdraws the offer, so
// drivers send no more calls.
func (w *Worker) advertise(ctx context.Context) {
	tick := time.NewTicker(w.cfg.AdvertiseEvery)
	defer tick.Stop()
	failing := false
	for {
		err := w.offer(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Warn("tools not advertised", zap.Error(err))
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.withdraw(context.WithoutCancel(ctx))
			return
		}
	}
}

func (w *Worker) offer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	if err := w.tools.refresh(ctx); err != nil {
		return err
	}
	if w.cfg.Offers == nil {
		return nil
	}
	return w.cfg.Offers.Advertise(ctx, w.tools.specs())
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

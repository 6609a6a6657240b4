package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
)

// Offers is where a worker tells which tools it has, for models to be offered
// them.
type Offers interface {
	// Advertise makes or renews the offer, which lapses if it is not renewed.
	Advertise(ctx context.Context, tools []tool.Spec) error
	// Withdraw takes the offer back.
	Withdraw(ctx context.Context) error
}

// shelf holds the tools as they were when the sources were last asked.
type shelf struct {
	sources []tool.Source
	current atomic.Pointer[tool.Catalog]
}

// refresh asks the sources.
func (s *shelf) refresh(ctx context.Context) error {
	c, err := tool.Sample(ctx, s.sources, tool.FirstWins)
	if err != nil {
		return err
	}
	s.current.Store(&c)
	return nil
}

func (s *shelf) specs() []tool.Spec { return s.current.Load().Specs() }

// lookup finds a tool. A name that is not known yet may be of a tool that came
// since, so the sources are asked once more.
func (s *shelf) lookup(ctx context.Context, name string) (tool.Offer, bool) {
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

// offerTimeout bounds one round of questions to the sources and one word to
// whoever keeps the offers.
const offerTimeout = 2 * time.Second

// advertise keeps the tools fresh and the offer standing until ctx ends, then
// takes it back: drivers should send no more here.
func (w *Worker) advertise(ctx context.Context) {
	tick := time.NewTicker(w.cfg.AdvertiseEvery)
	defer tick.Stop()
	failing := false
	for {
		if err := w.offer(ctx); err != nil && ctx.Err() == nil {
			if !failing {
				w.log.Warn("tools not advertised", zap.Error(err))
			}
			failing = true
		} else {
			failing = false
		}
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
	if err := w.shelf.refresh(ctx); err != nil {
		return err
	}
	if w.cfg.Offers == nil {
		return nil
	}
	return w.cfg.Offers.Advertise(ctx, w.shelf.specs())
}

func (w *Worker) withdraw(ctx context.Context) {
	if w.cfg.Offers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	if err := w.cfg.Offers.Withdraw(ctx); err != nil {
		w.log.Warn("tools not withdrawn", zap.Error(err)) // the offer lapses
	}
}

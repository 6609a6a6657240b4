// Package presence follows a service that is not always available.
//
// A [Watch] asks the service periodically what it offers, and keeps the last answer. While the service does not answer, there
// is no offer, only the reason. Users of the offer never wait for the service.
//
// The owner runs [Watch.Run] on one goroutine; the other methods are safe for concurrent use.
package presence

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Config says how often a [Watch] asks.
type Config struct {
	Every time.Duration // while the service is available
	First time.Duration // after a failure
	Most  time.Duration // First doubles up to this while failures continue
}

// Watch follows one service, which offers a T.
type Watch[T any] struct {
	cfg     Config
	ask     func(ctx context.Context, last T) (T, error)
	changed func(offer T, err error)
	hurry   chan struct{} // has an element if the watch should not wait
	settled chan struct{} // closed after the first answer or failure
	once    sync.Once

	mu    sync.Mutex // guards the rest
	offer T
	err   error
}

// New returns a watch that has not started. ask asks the service; last is its previous offer, or the zero T. changed is called
// when the service becomes available or unavailable, and when the reason changes.
func New[T any](cfg Config, ask func(ctx context.Context, last T) (T, error), changed func(offer T, err error)) *Watch[T] {
	return &Watch[T]{cfg: cfg, ask: ask, changed: changed, hurry: make(chan struct{}, 1), settled: make(chan struct{})}
}

// Run asks until ctx ends. There is no offer after that.
func (w *Watch[T]) Run(ctx context.Context) {
	var away time.Duration // the last pause, while the service is unavailable
	last := "nothing yet"
	for {
		before, _ := w.Offer()
		offer, err := w.ask(ctx, before)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		w.set(offer, err)
		if ctx.Err() != nil {
			return
		}
		now, wait := "", w.cfg.Every
		if err != nil {
			now, away = err.Error(), min(max(w.cfg.First, 2*away), w.cfg.Most)
			wait = away
		} else {
			away = 0
		}
		if now != last {
			last = now
			w.changed(offer, err)
		}
		w.pause(ctx, wait/2+rand.N(wait/2+1))
	}
}

func (w *Watch[T]) set(offer T, err error) {
	w.mu.Lock()
	if err != nil {
		var none T
		offer = none
	}
	w.offer, w.err = offer, err
	w.mu.Unlock()
	w.once.Do(func() { close(w.settled) })
}

func (w *Watch[T]) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.hurry:
	case <-ctx.Done():
	}
}

// Offer returns what the service offers, or why it offers nothing.
func (w *Watch[T]) Offer() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offer, w.err
}

// Hurry asks the service at once.
func (w *Watch[T]) Hurry() {
	select {
	case w.hurry <- struct{}{}:
	default: // it will
	}
}

// Settled waits until the service was asked once, and returns why it offers nothing.
func (w *Watch[T]) Settled(ctx context.Context) error {
	select {
	case <-w.settled:
		_, err := w.Offer()
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

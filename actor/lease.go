package actor

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// lease renews a run token beside its driver, which may have to wait for a server
// or for a slow decision longer than the token lasts. start and stop belong to the
// driver's goroutine; fresh is for any.
type lease struct {
	token   extender
	log     *zap.Logger
	renewed atomic.Pointer[time.Time] // with the monotonic clock

	quit context.CancelFunc
	done chan struct{}
}

// extender is the part of a run token that a lease needs.
type extender interface {
	Extend() error
	AckWait() time.Duration
}

// extendAgain is how long after a renewal that could not be sent the next one is
// tried: a connection is reestablished within seconds.
const extendAgain = 250 * time.Millisecond

func newLease(token extender, log *zap.Logger) *lease {
	l := &lease{token: token, log: log}
	now := time.Now()
	l.renewed.Store(&now)
	return l
}

// start renews until stop, or until ctx ends. lost is called once, with
// ErrLeaseLost, if nothing could be renewed for as long as the token lasts: it may
// belong to another driver then, and to renew it would steal it.
func (l *lease) start(ctx context.Context, lost context.CancelCauseFunc) {
	ctx, l.quit = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go func() { // stop waits for it
		defer close(l.done)
		if !l.keep(ctx) {
			lost(ErrLeaseLost)
		}
	}()
}

// keep reports false if the token was lost.
func (l *lease) keep(ctx context.Context) bool {
	wait := l.token.AckWait() / 3
	for pause(ctx, wait) {
		now := time.Now()
		if now.Sub(*l.renewed.Load()) >= l.token.AckWait() {
			return false
		}
		if err := l.token.Extend(); err != nil {
			l.log.Warn("run token could not be renewed", zap.Error(err))
			wait = extendAgain
			continue
		}
		l.renewed.Store(&now)
		wait = l.token.AckWait() / 3
	}
	return true
}

// stop ends the renewals. Nothing is renewed once it has returned, so the token
// may be given away.
func (l *lease) stop() {
	l.quit()
	<-l.done
}

// fresh reports whether the last renewal is younger than half of what the token
// lasts. Without it nothing that costs or acts may be begun: the process may have
// stood still for longer than the lease.
func (l *lease) fresh() bool { return time.Since(*l.renewed.Load()) < l.token.AckWait()/2 }

package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/pause"
)

// lease renews a run token in the background, because its driver may wait for a server or for a
// slow decision longer than the token lasts. start and stop belong to the driver's goroutine;
// any goroutine may call fresh.
type lease struct {
	token   extender
	log     *zap.Logger
	renewed atomic.Pointer[time.Time] // with the monotonic clock

	quit     context.CancelFunc
	renewing sync.WaitGroup
}

// extender is the part of a run token that a lease needs.
type extender interface {
	Extend() error
	AckWait() time.Duration
}

// extendAgain is the pause after a failed renewal: connections return within seconds.
const extendAgain = 250 * time.Millisecond

func newLease(token extender, log *zap.Logger) *lease {
	l := &lease{token: token, log: log}
	now := time.Now()
	l.renewed.Store(&now)
	return l
}

// start renews until stop, or until ctx ends. If no renewal succeeds for as long as the token
// lasts, it calls lost with ErrLeaseLost: another driver may have the token by then, and a
// renewal would steal it.
func (l *lease) start(ctx context.Context, lost context.CancelCauseFunc) {
	ctx, l.quit = context.WithCancel(ctx)
	l.renewing.Go(func() {
		if !l.keep(ctx) {
			lost(ErrLeaseLost)
		}
	})
}

// keep renews until ctx ends. It returns false if the token was lost.
func (l *lease) keep(ctx context.Context) bool {
	for wait := l.token.AckWait() / 3; pause.For(ctx, wait); {
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

// stop ends the renewals. Once it has returned, the token may be given away.
func (l *lease) stop() {
	l.quit()
	l.renewing.Wait()
}

// fresh reports whether the last renewal is younger than half of the token's lifetime. Without
// a fresh lease nothing that costs or acts may start: the process may have been suspended for
// longer than the lease.
func (l *lease) fresh() bool { return time.Since(*l.renewed.Load()) < l.token.AckWait()/2 }

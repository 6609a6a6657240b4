// Package lease keeps the run token of a session that a driver owns.
package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Lease renews a run token in the background, because its driver may wait for a server or for a
// slow decision longer than the token lasts. A node has thousands, so a lease is a timer and no goroutine.
// Any goroutine may call its methods, but Start.
type Lease struct {
	token   Extender
	log     *zap.Logger
	renewed atomic.Pointer[time.Time] // with the monotonic clock

	mu    sync.Mutex // held while the token is renewed
	timer *time.Timer
	over  bool
}

// Extender is the part of a run token that a lease needs.
type Extender interface {
	// Extend renews the token.
	Extend() error
	// AckWait is how long the token lasts.
	AckWait() time.Duration
}

// extendAgain is the pause after a failed renewal: connections return within seconds.
const extendAgain = 250 * time.Millisecond

// New returns a lease of a token that was just given.
func New(token Extender, log *zap.Logger) *Lease {
	l := &Lease{token: token, log: log}
	now := time.Now()
	l.renewed.Store(&now)
	return l
}

// Start renews until Stop, or until ctx ends. If no renewal succeeds for as long as the token
// lasts, it calls lost: another driver may have the token by then, and a renewal would steal it.
func (l *Lease) Start(ctx context.Context, lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	context.AfterFunc(ctx, l.Stop)
	l.timer = time.AfterFunc(l.token.AckWait()/3, func() {
		if !l.renew() {
			lost()
		}
	})
}

// renew renews the token and sets the timer for the next time. It returns false if the token was lost.
func (l *Lease) renew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return true
	}
	now := time.Now()
	if now.Sub(*l.renewed.Load()) >= l.token.AckWait() {
		return false
	}
	wait := l.token.AckWait() / 3
	if err := l.token.Extend(); err != nil {
		l.log.Warn("run token could not be renewed", zap.Error(err))
		wait = extendAgain
	} else {
		l.renewed.Store(&now)
	}
	l.timer.Reset(wait)
	return true
}

// Stop ends the renewals. Once it has returned, the token may be given away.
func (l *Lease) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.timer.Stop()
}

// Fresh reports whether the last renewal is younger than half of the token's lifetime. Without
// a fresh lease nothing that costs or acts may start: the process may have been suspended for
// longer than the lease.
func (l *Lease) Fresh() bool { return time.Since(*l.renewed.Load()) < l.token.AckWait()/2 }

package tokens

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

// Token is the part of a run token that a lease needs.
type Token interface {
	// Session is the session that it is for.
	Session() content.SessionID
	// Reply is the subject of answers.
	Reply() string
	// Extend renews the token.
	Extend() error
	// ExtendFor renews it for another time.
	ExtendFor(d time.Duration) error
	// AckWait is how long the token lasts.
	AckWait() time.Duration
	// Back is when the token was to return, and whether it is gone.
	Back() (at time.Time, gone bool)
}

// dueAfter is after which part of its time a token is renewed.
const dueAfter = 4 // with renewals every two seconds, before it is half over

// Lease is the right to drive one session. Any goroutine may call its methods, but Start.
type Lease struct {
	token   Token
	renewed atomic.Pointer[time.Time] // with the monotonic clock: when the node last vouched for the token

	mu   sync.Mutex // held while the token is renewed
	lost func()
	over bool
	long time.Time // when it was last renewed for a long time; zero: the server gives it the usual time

	listed bool // a confirmed list names it; guarded by Held
}

func newLease(t Token) *Lease {
	l, now := &Lease{token: t, lost: func() {}}, time.Now()
	l.renewed.Store(&now)
	return l
}

// Start has lost called if no renewal succeeds for as long as the token lasts: another driver may have the token by
// then, and a renewal would steal it. The lease stops with ctx.
func (l *Lease) Start(ctx context.Context, lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	context.AfterFunc(ctx, l.Stop)
	l.lost = lost
}

// Stop ends the renewals. Once it has returned, the token may be given away.
func (l *Lease) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// Fresh reports whether the last renewal is younger than half of the token's lifetime: that of the token, or the
// confirmed record of the node, which names it. Without a fresh lease nothing that costs or acts may start: the
// process may have been suspended for longer than the lease.
func (l *Lease) Fresh() bool { return time.Since(*l.renewed.Load()) < l.token.AckWait()/2 }

// footing is what a renewal rests on.
type footing struct {
	confirmed *time.Time // when the last confirmed record was sent, while it renews the tokens that are listed
	shorten   bool       // the server must no longer keep a token for a long time
}

// renew renews the token if it is time. The record renews it, too, and the server hears of it seldom.
func (l *Lease) renew(f footing, listed bool) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, rests := time.Now(), listed && f.confirmed != nil
	switch since := now.Sub(*l.renewed.Load()); {
	case l.over:
	case since >= l.token.AckWait():
		l.lose()
	case rests && !l.long.IsZero() && now.Sub(l.long) < jetstream.LongLease/3:
		l.renewed.Store(f.confirmed)
	case rests:
		if err = l.token.ExtendFor(jetstream.LongLease); err == nil {
			l.long = now
			l.renewed.Store(&now)
		}
	case f.shorten && !l.long.IsZero(), l.long.IsZero() && since >= l.token.AckWait()/dueAfter:
		if err = l.token.Extend(); err == nil {
			l.long = time.Time{}
			l.renewed.Store(&now)
		}
	}
	return err
}

// replaced ends a lease whose session another node drives.
func (l *Lease) replaced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.lose()
	}
}

// lose ends the lease. The lock is held.
func (l *Lease) lose() {
	l.over = true
	l.lost()
}

// isLong reports whether the server keeps the token for a long time.
func (l *Lease) isLong() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.long.IsZero()
}

func (l *Lease) held() jetstream.HeldToken {
	return jetstream.HeldToken{Session: l.token.Session(), Reply: l.token.Reply()}
}

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
	// Session returns the session that the token is for.
	Session() content.SessionID
	// Reply returns the subject for acknowledgments.
	Reply() string
	// Extend renews the token.
	Extend() error
	// ExtendFor renews the token for another duration.
	ExtendFor(d time.Duration) error
	// AckWait returns how long the token lasts without a renewal.
	AckWait() time.Duration
	// Back returns when the token was to return, and whether it is gone.
	Back() (at time.Time, gone bool)
}

// dueAfter says after which part of its lifetime a token is renewed.
const dueAfter = 4 // with renewals every two seconds, that is before half of it has passed

// Lease is the right to drive one session. Any goroutine may call its methods, except Start.
type Lease struct {
	token   Token
	renewed atomic.Pointer[time.Time] // when the node last vouched for the token; with the monotonic clock

	mu   sync.Mutex // held while the token is renewed
	lost func()
	over bool
	long time.Time // when it was last renewed for a long time; zero: the server keeps it for the usual time

	listed bool // a confirmed list names it; guarded by Held
}

func newLease(t Token) *Lease {
	l, now := &Lease{token: t, lost: func() {}}, time.Now()
	l.renewed.Store(&now)
	return l
}

// Start makes the lease call lost if no renewal succeeds for the token's lifetime: by then another driver may
// have the token, and a renewal would steal it. The lease stops when ctx ends.
func (l *Lease) Start(ctx context.Context, lost func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	context.AfterFunc(ctx, l.Stop)
	l.lost = lost
}

// Stop ends the renewals. Once it returns, the token may be given up.
func (l *Lease) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// Fresh reports whether the last renewal is younger than half of the token's lifetime. A renewal is one of
// the token itself, or a confirmed record of a node whose list names it. Nothing that costs or acts may start
// without a fresh lease: the process may have been suspended for longer than the lease lasts.
func (l *Lease) Fresh() bool { return time.Since(*l.renewed.Load()) < l.token.AckWait()/2 }

// basis is what a renewal is based on.
type basis struct {
	confirmed *time.Time // when the last confirmed record was sent, while it renews the listed tokens
	shorten   bool       // the server must stop keeping tokens for a long time
}

// renew renews the token if it is due. A confirmed record also renews a listed token, so it seldom sends
// the server a request.
func (l *Lease) renew(b basis, listed bool) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, rests := time.Now(), listed && b.confirmed != nil
	switch since := now.Sub(*l.renewed.Load()); {
	case l.over:
	case since >= l.token.AckWait():
		l.lose()
	case rests && !l.long.IsZero() && now.Sub(l.long) < jetstream.LongLease/3:
		l.renewed.Store(b.confirmed)
	case rests:
		if err = l.token.ExtendFor(jetstream.LongLease); err == nil {
			l.long = now
			l.renewed.Store(&now)
		}
	case b.shorten && !l.long.IsZero(), l.long.IsZero() && since >= l.token.AckWait()/dueAfter:
		if err = l.token.Extend(); err == nil {
			l.long = time.Time{}
			l.renewed.Store(&now)
		}
	}
	return err
}

// replaced ends a lease because another node drives its session.
func (l *Lease) replaced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.lose()
	}
}

// lose ends the lease. The caller holds mu.
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

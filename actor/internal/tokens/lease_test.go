package tokens

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
)

var errLost = errors.New("lost")

// cut is a token whose renewals fail for a while.
type cut struct {
	from, until time.Time
	short, long []time.Duration // when it was renewed, after from
}

func (*cut) Session() content.SessionID { return "s" }
func (*cut) Reply() string              { return "$JS.ACK.TURNLOG_RUN.drivers.1.7.9.1.0" }
func (*cut) AckWait() time.Duration     { return 12 * time.Second }
func (*cut) Back() (time.Time, bool)    { return time.Time{}, false }
func (c *cut) Extend() error            { return c.extend(&c.short) }
func (c *cut) ExtendFor(time.Duration) error {
	return c.extend(&c.long)
}

func (c *cut) extend(which *[]time.Duration) error {
	if time.Now().Before(c.until) {
		return errors.New("disconnected")
	}
	*which = append(*which, time.Since(c.from))
	return nil
}

// kept renews a lease as a node does, with what its renewals rest on at a time.
func kept(t *testing.T, token *cut, on func(now time.Time) (b basis, listed bool)) (*Lease, context.Context) {
	t.Helper()
	l := newLease(token)
	ctx, lost := context.WithCancelCause(t.Context())
	l.Start(ctx, func() { lost(errLost) })
	go func() {
		for wait := renewEvery; pause.For(t.Context(), wait); {
			if wait = renewEvery; l.renew(on(time.Now())) != nil {
				wait = renewAgain
			}
		}
	}()
	return l, ctx
}

func alone(time.Time) (basis, bool) { return basis{}, false }

func TestALeaseOutlivesAShortDisconnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := &cut{from: began, until: began.Add(10 * time.Second)}
		l, ctx := kept(t, token, alone)
		<-time.After(7 * time.Second)
		if l.Fresh() {
			t.Error("the lease is fresh after 7 s without a renewal")
		}
		<-time.After(4 * time.Second)
		if !l.Fresh() || ctx.Err() != nil {
			t.Errorf("fresh = %v, lost: %v; want it renewed with the connection", l.Fresh(), context.Cause(ctx))
		}
		l.Stop()
		n := len(token.short)
		<-time.After(time.Minute)
		if len(token.short) != n {
			t.Error("a lease that was stopped was renewed")
		}
	})
}

func TestALeaseThatMayHaveExpiredIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := &cut{from: began, until: began.Add(13 * time.Second)}
		_, ctx := kept(t, token, alone)
		<-ctx.Done()
		if took := time.Since(began); !errors.Is(context.Cause(ctx), errLost) || took < 12*time.Second || took > 13*time.Second {
			t.Errorf("cause = %v after %v, want errLost after 12 s", context.Cause(ctx), took)
		}
		<-time.After(time.Minute)
		if len(token.short)+len(token.long) != 0 {
			t.Errorf("renewed after %v, %v", token.short, token.long)
		}
	})
}

// The record that names the token renews it, and the token itself is renewed only every half minute.
func TestAListedTokenIsRenewedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		token := &cut{from: time.Now()}
		l, ctx := kept(t, token, func(now time.Time) (basis, bool) { return basis{confirmed: &now}, true })
		<-time.After(10 * time.Minute)
		if !l.Fresh() || ctx.Err() != nil || len(token.short) > 0 || len(token.long) != 20 {
			t.Errorf("fresh = %v, lost: %v, renewed %d and for long %d times", l.Fresh(), context.Cause(ctx), len(token.short), len(token.long))
		}
	})
}

// A record that is not confirmed renews nothing: the lease is stale after 6 s and lost after 12, as without a record.
func TestALeaseRestsOnTheConfirmedRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := &cut{from: began}
		last := began.Add(time.Minute)
		l, ctx := kept(t, token, func(now time.Time) (basis, bool) {
			if now.After(last) {
				return basis{}, true
			}
			return basis{confirmed: &now}, true
		})
		<-time.After(time.Minute + 5*time.Second)
		if !l.Fresh() {
			t.Error("the lease is stale 5 s after the last record")
		}
		<-time.After(2 * time.Second)
		if l.Fresh() || ctx.Err() != nil {
			t.Errorf("fresh = %v, lost: %v, 7 s after the last record", l.Fresh(), context.Cause(ctx))
		}
		<-time.After(6 * time.Second)
		if !errors.Is(context.Cause(ctx), errLost) {
			t.Error("the lease is not lost 13 s after the last record")
		}
	})
}

// A node whose record cannot be written makes its leases short, and renews each.
func TestALongLeaseIsMadeShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := &cut{from: began}
		l, _ := kept(t, token, func(now time.Time) (basis, bool) {
			if now.Sub(began) > time.Minute {
				return basis{shorten: true}, true
			}
			return basis{confirmed: &now}, true
		})
		<-time.After(2 * time.Minute)
		if !l.Fresh() || len(token.short) < 12 || token.short[0] > time.Minute+2*time.Second || l.isLong() {
			t.Errorf("fresh = %v, renewed after %v", l.Fresh(), token.short)
		}
	})
}

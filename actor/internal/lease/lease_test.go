package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

var errLost = errors.New("lost")

// cut is a token whose renewals fail for a while.
type cut struct {
	from, until time.Time
	sent        []time.Duration // after from
}

func (*cut) AckWait() time.Duration { return 12 * time.Second }

func (c *cut) Extend() error {
	if time.Now().Before(c.until) {
		return errors.New("disconnected")
	}
	c.sent = append(c.sent, time.Since(c.from))
	return nil
}

func TestALeaseOutlivesAShortDisconnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := &cut{from: began, until: began.Add(10 * time.Second)}
		l := New(token, zap.NewNop())
		ctx, lost := context.WithCancelCause(t.Context())
		l.Start(ctx, func() { lost(errLost) })
		<-time.After(7 * time.Second)
		if l.Fresh() {
			t.Error("the lease is fresh after 7 s without a renewal")
		}
		<-time.After(4 * time.Second)
		if !l.Fresh() || ctx.Err() != nil {
			t.Errorf("fresh = %v, lost: %v; want it renewed with the connection", l.Fresh(), context.Cause(ctx))
		}
		l.Stop()
		n := len(token.sent)
		<-time.After(time.Minute)
		if len(token.sent) != n {
			t.Error("a lease that was stopped was renewed")
		}
		lost(nil)
	})
}

func TestALeaseThatMayHaveExpiredIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		token := &cut{from: began, until: began.Add(13 * time.Second)}
		l := New(token, zap.NewNop())
		ctx, lost := context.WithCancelCause(t.Context())
		l.Start(ctx, func() { lost(errLost) })
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), errLost) {
			t.Errorf("cause = %v, want errLost", context.Cause(ctx))
		}
		<-time.After(time.Minute)
		if len(token.sent) != 0 {
			t.Errorf("renewed after %v", token.sent)
		}
		l.Stop()
	})
}

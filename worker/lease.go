package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// The lease is renewed at a third of its length. A failed renewal is retried after a quarter of
// that.
const (
	renewals = 3
	retries  = 4
)

// keep renews a claim until end is called, which waits for the renewals to stop. The context that
// it returns ends with the lease; if the lease is lost, its cause is task.ErrGone.
func keep(ctx context.Context, c task.Claim, log *zap.Logger) (alive context.Context, end func()) {
	alive, lose := context.WithCancelCause(ctx)
	until := time.Now().Add(c.Lease())
	var renewing sync.WaitGroup
	renewing.Add(1)
	first := time.AfterFunc(c.Lease()/renewals, func() { // most calls end before
		defer renewing.Done()
		lose(renew(alive, c, until, log))
	})
	return alive, func() {
		lose(nil)
		if first.Stop() {
			renewing.Done()
		}
		renewing.Wait()
	}
}

// renew extends the lease, which lasts until then, now and periodically until ctx or the lease ends. The
// claim reports the end of the lease; renew also checks the clock, in case the claim cannot be reached.
func renew(ctx context.Context, c task.Claim, until time.Time, log *zap.Logger) error {
	every := c.Lease() / renewals
	for wait := time.Duration(0); pause.For(ctx, wait); {
		asked := time.Now()
		err := extend(ctx, c, every)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the call has ended
		case err == nil:
			until, wait = asked.Add(c.Lease()), time.Until(asked.Add(every))
		case errors.Is(err, task.ErrGone) || !time.Now().Before(until):
			return task.ErrGone
		default:
			log.Warn("lease not renewed", zap.Error(err))
			wait = min(every/retries, time.Until(until))
		}
	}
	return nil
}

func extend(ctx context.Context, c task.Claim, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.Extend(ctx)
}

// gone reports whether the lease of a context of keep was lost.
func gone(ctx context.Context) bool { return errors.Is(context.Cause(ctx), task.ErrGone) }

// stoppable returns the context of a call: it ends with ctx, when the claim is canceled, or with
// stopping. done must be called after the call.
func stoppable(ctx, stopping context.Context, c task.Claim) (call context.Context, done func()) {
	call, stop := context.WithCancelCause(ctx)
	c.OnCancel(func(reason string) { stop(fmt.Errorf("%w: %s", tool.ErrCancelled, reason)) })
	unhook := context.AfterFunc(stopping, func() { stop(ErrStopped) })
	return call, func() {
		unhook()
		stop(nil)
	}
}

// canceled reports whether the call of a context of stoppable was canceled.
func canceled(call context.Context) bool { return errors.Is(context.Cause(call), tool.ErrCancelled) }

// backoff is the pause between attempts. It doubles each time, with jitter, so that many workers do
// not retry in step. The zero value is ready.
type backoff time.Duration

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// wait pauses and reports whether ctx has not ended.
func (b *backoff) wait(ctx context.Context) bool {
	*b = min(max(2**b, backoff(firstPause)), backoff(maxPause))
	half := time.Duration(*b / 2)
	return pause.For(ctx, half+rand.N(half))
}

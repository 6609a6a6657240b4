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

// hold renews a claim until end is called, which waits for the renewals to stop. alive ends with ctx and with
// the lease. call is the context of the call: it ends with stopping, with the lease, or when the claim is
// canceled. If the lease is lost, the cause of both is task.ErrGone.
func hold(ctx, stopping context.Context, j *job) (alive, call context.Context, end func()) {
	life, lose := context.WithCancelCause(ctx)
	call, stop := context.WithCancelCause(stopping)
	j.OnCancel(func(reason string) { stop(fmt.Errorf("%w: %s", tool.ErrCancelled, reason)) })
	until := time.Now().Add(j.Lease())
	var renewing sync.WaitGroup
	renewing.Add(1)
	first := time.AfterFunc(j.Lease()/renewals, func() { // most calls end before
		defer renewing.Done()
		err := renew(life, j, until)
		lose(err)
		stop(err)
	})
	return life, call, func() {
		stop(nil)
		lose(nil)
		if first.Stop() {
			renewing.Done()
		}
		renewing.Wait()
	}
}

// renew extends the lease, which lasts until then, now and periodically until ctx or the lease ends. The
// claim reports the end of the lease; renew also checks the clock, in case the claim cannot be reached.
func renew(ctx context.Context, j *job, until time.Time) error {
	every := j.Lease() / renewals
	for wait := time.Duration(0); pause.For(ctx, wait); {
		asked := time.Now()
		err := extend(ctx, j, every)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the call has ended
		case err == nil:
			until, wait = asked.Add(j.Lease()), time.Until(asked.Add(every))
		case errors.Is(err, task.ErrGone) || !time.Now().Before(until):
			return task.ErrGone
		default:
			j.log().Warn("lease not renewed", zap.Error(err))
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

// gone reports whether a context from hold ended because the lease was lost.
func gone(ctx context.Context) bool { return errors.Is(context.Cause(ctx), task.ErrGone) }

// canceled reports whether the call's context from hold ended because the call was canceled.
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

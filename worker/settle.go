package worker

import (
	"context"
	"errors"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/worker/task"
)

// attemptTimeout bounds one request to the queue. A large report gets more time, at slowest bytes
// per second, because each attempt starts over.
const (
	attemptTimeout = 10 * time.Second
	slowest        = 1 << 20
)

// patience returns how long one attempt to send a report may take.
func patience(r task.Report) time.Duration {
	size := 0
	for _, p := range r.Outcome.Result.Output {
		size += len(p.Text) + len(p.Data)
		if p.Media != nil {
			size += len(p.Media.Bytes)
		}
	}
	return attemptTimeout + time.Duration(size/slowest)*time.Second
}

// settle carries out an ending and returns the actual fate of the claim. ctx ends with the lease.
func settle(ctx context.Context, j *job, e ending) Fate {
	switch {
	case gone(ctx):
		j.log().Warn("lease lost during the call")
		return Gone
	case e.fate == Released:
		// No retries: if the request is lost, the lease expires, with the same effect.
		if err := attempt(ctx, attemptTimeout, j.Release); err != nil {
			j.log().Warn("task not released", zap.Error(err))
		}
		return Released
	case e.fate == Asked:
		return ask(ctx, j, e)
	}
	if err := report(ctx, j, e); err != nil {
		j.log().Error("outcome not reported", zap.Error(err))
		return Unreported
	}
	if err := done(ctx, j); err != nil && !errors.Is(err, task.ErrGone) {
		j.log().Warn("task not removed from its queue", zap.Error(err)) // the repeated report has no effect
	}
	return e.fate
}

// done takes a task off its queue. It gives up after one lease, although the lease can still be extended: a
// queue that was rolled back confirms an extension for any task, but confirms Done only for tasks that it has.
func done(ctx context.Context, j *job) error {
	return persist(ctx, j, "done", j.Lease(), attemptTimeout, j.Done)
}

// ask removes a task from its queue and then reports its question: dispatching the call again is
// safe, redelivering it is not. If the question is lost, the next dispatch asks it again.
func ask(ctx context.Context, j *job, e ending) Fate {
	err := persist(ctx, j, "unbegin", forever, attemptTimeout, j.Unbegin)
	if err == nil {
		err = done(ctx, j)
	}
	if err != nil {
		j.log().Warn("task not removed from its queue", zap.Error(err))
		return Gone
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout) // the lease is over
	defer cancel()
	if err := report(ctx, j, e); err != nil {
		j.log().Error("approval request not reported", zap.Error(err))
		return Unreported
	}
	return Asked
}

func report(ctx context.Context, j *job, e ending) error {
	send := func(ctx context.Context) error { return j.Report(ctx, e.report) }
	return persist(ctx, j, "report", forever, patience(e.report), send)
}

// forever is how long persist tries without a limit.
const forever = time.Duration(math.MaxInt64)

// persist retries do until it succeeds, for a time, or ctx ends.
func persist(ctx context.Context, j *job, step string, long, limit time.Duration, do func(context.Context) error) error {
	var pause backoff
	for began := time.Now(); ; {
		err := attempt(ctx, limit, do)
		if err == nil || errors.Is(err, task.ErrGone) || errors.Is(err, task.ErrBegun) || ctx.Err() != nil {
			return err
		}
		j.log().Warn("queue operation failed", zap.String("step", step), zap.Error(err))
		left := long - time.Since(began)
		if left <= 0 {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, left)
		again := pause.wait(bounded)
		cancel()
		if !again {
			return err
		}
	}
}

// attempt calls do once. The end of ctx does not interrupt it: a report after the lease is harmless.
func attempt(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return do(ctx)
}

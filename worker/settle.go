package worker

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/worker/task"
)

// attemptTimeout bounds one attempt to tell the queue something, but for what a large
// report takes beyond that, at slowest bytes a second: an attempt begins anew.
const (
	attemptTimeout = 10 * time.Second
	slowest        = 1 << 20
)

// patience is how long one attempt to bring a report may take.
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

// settle brings an ending about and returns the fate that the claim really had.
// ctx lasts as long as the lease.
func settle(ctx context.Context, c task.Claim, e ending, log *zap.Logger) Fate {
	switch {
	case gone(ctx):
		log.Warn("lease lost in the middle of the call")
		return Gone
	case e.fate == Released:
		// It is tried once: unheard, the lease lapses, which leads to the same.
		if err := attempt(ctx, attemptTimeout, c.Release); err != nil {
			log.Warn("task not handed back", zap.Error(err))
		}
		return Released
	case e.fate == Asked:
		return ask(ctx, c, e, log)
	}
	report := func(ctx context.Context) error { return c.Report(ctx, e.report) }
	if err := persist(ctx, "report", patience(e.report), report, log); err != nil {
		log.Error("outcome not reported", zap.Error(err))
		return Unreported
	}
	err := persist(ctx, "done", attemptTimeout, c.Done, log)
	if err != nil && !errors.Is(err, task.ErrGone) {
		log.Warn("task not taken off its queue", zap.Error(err)) // it comes back; its report is known
	}
	return e.fate
}

// ask takes a task off its queue and then reports its question: it is safe to make
// the call again, and not to have it handed out again. A question that is lost on the
// way is asked by the next dispatch.
func ask(ctx context.Context, c task.Claim, e ending, log *zap.Logger) Fate {
	if err := persist(ctx, "done", attemptTimeout, c.Done, log); err != nil {
		log.Warn("task not taken off its queue", zap.Error(err))
		return Gone
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout) // there is no lease any more
	defer cancel()
	report := func(ctx context.Context) error { return c.Report(ctx, e.report) }
	if err := persist(ctx, "report", patience(e.report), report, log); err != nil {
		log.Error("question not reported", zap.Error(err))
		return Unreported
	}
	return Asked
}

// persist does something at least once, and again for as long as it fails and ctx
// lasts.
func persist(ctx context.Context, step string, limit time.Duration, do func(context.Context) error, log *zap.Logger) error {
	var pause backoff
	for {
		err := attempt(ctx, limit, do)
		if err == nil || errors.Is(err, task.ErrGone) || ctx.Err() != nil {
			return err
		}
		log.Warn("queue was not told", zap.String("step", step), zap.Error(err))
		if !pause.wait(ctx) {
			return err
		}
	}
}

// attempt does something once. It is not cut off when ctx ends: a report that
// comes behind its lease does no harm.
func attempt(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return do(ctx)
}

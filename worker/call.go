package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// maxDeliveries bounds how often a task that may run twice is started, so that a call that kills its
// workers is not redelivered forever.
const maxDeliveries = 3

// CodeNotRun marks the failure of a call that its worker had no time to begin. It is safe to make
// the call again.
const CodeNotRun = "not_run"

// job is a claim that a worker handles.
type job struct {
	task.Claim

	worker *Worker
}

// log returns the logger of the claim. Most claims need none.
func (j *job) log() *zap.Logger {
	t := j.Task()
	return j.worker.log.With(logfield.Session(t.Session), logfield.Call(t.Place), logfield.Attempt(t.Attempt), logfield.Tool(t.Tool))
}

// handle handles a claim from start to end. It ends with ctx at the latest; the call is stopped when
// stopping ends.
func (w *Worker) handle(ctx, stopping context.Context, c task.Claim) {
	j := &job{c, w}
	t := j.Task()
	w.cfg.Observer.Claimed(t, j.Delivery())
	if j.Delivery() > 1 {
		j.log().Warn("task was delivered before", zap.Int("delivery", j.Delivery()))
	}
	alive, call, end := hold(ctx, stopping, j)
	defer end()

	e, decided := withoutRunning(call, j)
	if !decided {
		e = w.run(tracing.With(call, t.TraceParent, t.Baggage), j)
	}
	fate := settle(alive, j, e)
	w.cfg.Observer.Settled(t, fate)
	if w.log.Core().Enabled(zap.DebugLevel) {
		j.log().Debug("task settled", zap.String("fate", string(fate)), zap.String("status", string(e.report.Outcome.Result.Status)),
			logfield.Elapsed(e.report.Outcome.Duration))
	}
}

// ending is the intended fate of a claim, and its report.
type ending struct {
	fate   Fate
	report task.Report
}

func endingOf(t task.Task, f Fate) ending {
	return ending{f, task.Report{Session: t.Session, Call: t.Call, Place: t.Place, Attempt: t.Attempt, Queue: t.Queue, Wake: t.Wake}}
}

func outcome(t task.Task, r tool.Result) ending {
	e := endingOf(t, Reported)
	e.report.Outcome = r
	return e
}

func lost(t task.Task, reason string) ending {
	e := endingOf(t, Lost)
	e.report.Lost, e.report.Reason = true, reason
	return e
}

// failure returns the ending of a call that did not run.
func failure(t task.Task, s content.Status, code, text string) ending {
	r := content.NewResult(t.Call, t.Tool, s, text)
	r.Code = code
	return outcome(t, tool.Result{Result: r})
}

// withoutRunning returns the ending of a claim whose tool must not run, or must not run again.
func withoutRunning(call context.Context, c task.Claim) (e ending, decided bool) {
	t, delivery := c.Task(), c.Delivery()
	overdue := t.Deadline != 0 && !time.Now().Before(t.Deadline.Std())
	switch {
	case canceled(call):
		return failure(t, content.StatusCancelled, "", "Cancelled before it reported a result"), true
	case delivery > 1 && !t.Effects.Retryable():
		return lost(t, "the worker that ran it was lost"), true
	case delivery > maxDeliveries:
		return lost(t, fmt.Sprintf("%d workers began it and were lost", delivery-1)), true
	case delivery > 1 && overdue:
		return lost(t, "the worker that ran it was lost, and its deadline has passed"), true
	case overdue:
		return failure(t, content.StatusError, tool.CodeTimeout, "Tool timed out before a worker could begin"), true
	}
	return ending{}, false
}

// run runs the tool and decides how the claim ends.
func (w *Worker) run(ctx context.Context, j *job) ending {
	t := j.Task()
	o, ok := w.lookup(ctx, t.Tool)
	if !ok {
		return outcome(t, tool.Failed(tool.Call{ID: t.Call, Name: t.Tool}, tool.NotFound(t.Tool)))
	}
	if own := o.Spec.Effects; own.Or(t.Declared) != t.Declared { // another worker of the queue declared other effects
		return failure(t, content.StatusError, CodeNotRun, fmt.Sprintf(
			"Tool failed: policies judged it as %s, which it is not on this worker; nothing was done", t.Declared))
	}
	r, question, began := w.invoke(ctx, j, o)
	switch {
	case r.Result.Code == codeBegun:
		return lost(t, "a worker began it before, and its outcome is not known")
	case r.Result.Code == tool.CodeUnknown:
		return lost(t, content.Clip(r.Result.Text(), 1000))
	case question != nil:
		e := endingOf(t, Asked)
		e.report.Question = question
		return e
	case r.Result.Status != content.StatusCancelled || !errors.Is(context.Cause(ctx), ErrStopped):
		return outcome(t, r)
	case t.Effects.Retryable():
		return endingOf(t, Released)
	case !began:
		return failure(t, content.StatusError, CodeNotRun, "Tool failed: its worker was stopped before the call began; nothing was done")
	}
	return lost(t, "its worker was stopped in the middle of the call")
}

// codeBegun is the failure code of a call that began before.
const codeBegun = "begun_before"

// once keeps a call that must not run twice from beginning twice, after permissions were checked.
func once(j *job, x tool.Tool) tool.Tool {
	if j.Task().Effects.Retryable() {
		return x
	}
	return tool.Wrap(x, func(ctx context.Context, call tool.Call, next tool.Handler) (tool.Output, error) {
		err := persist(ctx, j, "begin", forever, attemptTimeout, j.Begin)
		switch {
		case errors.Is(err, task.ErrBegun):
			return tool.Output{}, tool.Failure(codeBegun, "it began before")
		case ctx.Err() != nil:
			return tool.Output{}, context.Cause(ctx) // the worker may have stopped waiting
		case err != nil:
			return tool.Output{}, err
		}
		return next(ctx, call)
	})
}

// invoke runs one call of a tool. It returns the question that the tool asks, if any, and
// whether the call began.
func (w *Worker) invoke(ctx context.Context, j *job, o tool.Offer) (r tool.Result, question *tool.Verdict, began bool) {
	t := j.Task()
	ctx, cancel := w.limit(ctx, t, o.Spec)
	defer cancel()
	v := tool.Invoker{
		MaxOutput: t.MaxOutput, Grace: toolGrace,
		OnBegin: func(tool.Call) {
			began = true
			w.cfg.Observer.Started(t)
		},
		OnQuestion: func(_ tool.Call, q tool.Verdict) { question = &q },
		OnPanic: func(_ tool.Call, value any, stack []byte) {
			j.log().Error("tool panicked", zap.Error(fmt.Errorf("panic: %v", value)), zap.ByteString("stack", stack))
		},
	}
	call := tool.Call{
		Session: t.Session, Turn: t.Turn, ID: t.Call, Place: t.Place, Name: t.Tool, Input: t.Input, Attempt: t.Attempt,
		IdempotencyKey: t.IdempotencyKey, Approved: t.Approved, Resources: w.cfg.Resources,
	}
	if w.cfg.Progress != nil {
		call.Progress = func(text string, share float64) { w.cfg.Progress(t, text, share) }
	}
	r = v.Invoke(ctx, w.guarded(t, once(j, o.Tool)), call)
	if !began {
		w.cfg.Observer.Started(t)
	}
	w.cfg.Observer.Finished(t, r)
	if _, abandoned := r.Result.Metadata.Get(tool.MetaAbandoned); abandoned {
		j.log().Warn("tool did not return in time: abandoned")
	}
	return r, question, began
}

// guarded wraps a tool in the permissions of the worker and of the session's agent, which judge
// the call that the tool gets.
func (w *Worker) guarded(t task.Task, x tool.Tool) tool.Tool {
	var policies []tool.Permissions
	if w.cfg.Permissions != nil {
		policies = append(policies, w.cfg.Permissions)
	}
	if len(t.Policy) > 0 {
		policies = append(policies, permission.Read(t.Policy, w.cfg.Root))
	}
	if len(policies) == 0 {
		return x
	}
	return tool.Wrap(x, permission.Guard(permission.All(policies...), x))
}

// limit bounds a call by the task's deadline, which is computed from the tool's timeout, or else by
// the default timeout.
func (w *Worker) limit(ctx context.Context, t task.Task, s tool.Spec) (context.Context, context.CancelFunc) {
	switch {
	case t.Deadline != 0 && cmp.Or(t.Timeout, s.Timeout) > 0:
		return context.WithDeadlineCause(ctx, t.Deadline.Std(), &tool.TimeoutError{After: cmp.Or(t.Timeout, s.Timeout)})
	case t.Deadline != 0:
		return context.WithDeadline(ctx, t.Deadline.Std())
	case s.Timeout > 0:
		return context.WithCancel(ctx) // Invoke applies it
	}
	return context.WithTimeoutCause(ctx, w.cfg.DefaultTimeout, &tool.TimeoutError{After: w.cfg.DefaultTimeout})
}

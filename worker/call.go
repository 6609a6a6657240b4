package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// maxDeliveries is how often a task that may run twice is begun. What takes down
// every worker that touches it must not be redelivered forever.
const maxDeliveries = 3

// CodeNotRun marks the failure of a call that its worker had no time left to
// begin. It is safe to make the call again.
const CodeNotRun = "not_run"

// handle is the whole life of a claim. It ends at the latest when ctx does; the
// call is told to end when stopping is closed.
func (w *Worker) handle(ctx context.Context, c task.Claim, stopping <-chan struct{}) {
	t := c.Task()
	log := w.log.WithLazy(logfield.Session(t.Session), logfield.Call(t.Place), logfield.Attempt(t.Attempt), logfield.Tool(t.Tool))
	w.cfg.Observer.Claimed(t, c.Delivery())
	if c.Delivery() > 1 {
		log.Warn("task was delivered before", zap.Int("delivery", c.Delivery()))
	}
	alive, end := keep(ctx, c, log)
	defer end()

	e, decided := withoutRunning(c)
	if !decided {
		call, done := stoppable(alive, c, stopping)
		e = w.run(call, t, log)
		done()
	}
	fate := settle(alive, c, e, log)
	w.cfg.Observer.Settled(t, fate)
	log.Debug("task settled", zap.String("fate", string(fate)), zap.String("status", string(e.report.Outcome.Result.Status)),
		logfield.Elapsed(e.report.Outcome.Duration))
}

// ending is what is to become of a claim: its fate if all goes well, and the
// report that carries it out.
type ending struct {
	fate   Fate
	report task.Report
}

func about(t task.Task) task.Report {
	return task.Report{Session: t.Session, Call: t.Call, Place: t.Place, Attempt: t.Attempt, Queue: t.Queue, Wake: t.Wake}
}

func outcome(t task.Task, r tool.Result) ending {
	rep := about(t)
	rep.Outcome = r
	return ending{Reported, rep}
}

func lost(t task.Task, reason string) ending {
	rep := about(t)
	rep.Lost, rep.Reason = true, reason
	return ending{Lost, rep}
}

// question is the ending of a call that a person has to approve first.
func question(t task.Task, v tool.Verdict) ending {
	rep := about(t)
	rep.Gate = &v
	return ending{Asked, rep}
}

// failure is the outcome of a call that did not run.
func failure(t task.Task, s content.Status, code, text string) ending {
	r := content.NewResult(t.Call, t.Tool, s, text)
	r.Code = code
	return outcome(t, tool.Result{Result: r})
}

// withoutRunning decides about claims whose tool must not run, or must not run any
// more.
func withoutRunning(c task.Claim) (ending, bool) {
	t, delivery := c.Task(), c.Delivery()
	switch {
	case cancelled(c):
		return failure(t, content.StatusCancelled, "", "Cancelled before it reported a result"), true
	case delivery > 1 && !t.Effects.Retryable():
		return lost(t, "the worker that ran it was lost"), true
	case delivery > maxDeliveries:
		return lost(t, fmt.Sprintf("%d workers began it and were lost", delivery-1)), true
	case delivery > 1 && overdue(t):
		return lost(t, "the worker that ran it was lost, and its time is over"), true
	case overdue(t):
		return failure(t, content.StatusError, tool.CodeTimeout, "Tool timed out before a worker could begin"), true
	}
	return ending{}, false
}

func overdue(t task.Task) bool { return t.Deadline != 0 && !time.Now().Before(t.Deadline.Std()) }

// run runs the tool and decides what its outcome means for the claim.
func (w *Worker) run(ctx context.Context, t task.Task, log *zap.Logger) ending {
	o, ok := w.tools.lookup(ctx, t.Tool)
	if !ok {
		return outcome(t, tool.Failed(tool.Call{ID: t.Call, Name: t.Tool}, tool.NotFound(t.Tool)))
	}
	r, gate, began := w.invoke(ctx, t, o, log)
	switch {
	case gate != nil:
		return question(t, *gate)
	case r.Result.Status != content.StatusCancelled || !errors.Is(context.Cause(ctx), ErrStopped):
		return outcome(t, r)
	case t.Effects.Retryable():
		return ending{Released, about(t)}
	case !began:
		return failure(t, content.StatusError, CodeNotRun, "Tool failed: its worker was stopped before the call began; nothing was done")
	}
	return lost(t, "its worker was stopped in the middle of the call")
}

// invoke runs one call of a tool. It returns what the tool asks a person for, if it
// does, and whether the call began.
func (w *Worker) invoke(ctx context.Context, t task.Task, o tool.Offer, log *zap.Logger) (r tool.Result, gate *tool.Verdict, began bool) {
	ctx, cancel := w.limit(ctx, t, o.Spec)
	defer cancel()
	invoker := w.invoker(log)
	told := invoker.OnBegin
	invoker.OnBegin = func(c tool.Call) {
		began = true
		w.cfg.Observer.Started(t)
		if told != nil {
			told(c)
		}
	}
	invoker.OnGate = func(_ tool.Call, v tool.Verdict) { gate = &v }
	if t.MaxOutput > 0 && (invoker.MaxOutput == 0 || t.MaxOutput < invoker.MaxOutput) {
		invoker.MaxOutput = t.MaxOutput
	}
	r = invoker.Invoke(ctx, w.guarded(t, o.Tool), tool.Call{
		Session: t.Session, Turn: t.Turn, ID: t.Call, Place: t.Place, Name: t.Tool, Input: t.Input, Attempt: t.Attempt,
		IdempotencyKey: t.IdempotencyKey, Approved: t.Approved, Resources: w.cfg.Resources, Progress: w.progress(t),
	})
	if !began {
		w.cfg.Observer.Started(t)
	}
	w.cfg.Observer.Finished(t, r)
	if _, abandoned := r.Result.Metadata.Get(tool.MetaAbandoned); abandoned {
		log.Warn("tool did not return in time and was abandoned")
	}
	return r, gate, began
}

// guarded is a tool in the worker's middleware, with its permissions innermost, and those
// of the session's agent: they judge the call that the tool gets.
func (w *Worker) guarded(t task.Task, x tool.Tool) tool.Tool {
	around := slices.Clone(w.cfg.Middleware)
	var policies []tool.Permissions
	if w.cfg.Permissions != nil {
		policies = append(policies, w.cfg.Permissions)
	}
	if len(t.Policy) > 0 {
		policies = append(policies, permission.Read(t.Policy, w.cfg.Root))
	}
	if len(policies) > 0 {
		around = append(around, permission.Guard(permission.All(policies...), x))
	}
	return tool.Wrap(x, around...)
}

// limit bounds a call by the task's deadline, which was set by the tool's timeout if
// it has one, else by the default.
func (w *Worker) limit(ctx context.Context, t task.Task, s tool.Spec) (context.Context, context.CancelFunc) {
	switch {
	case t.Deadline != 0 && cmp.Or(t.Timeout, s.Timeout) > 0:
		return context.WithDeadlineCause(ctx, t.Deadline.Std(), &tool.TimeoutError{After: cmp.Or(t.Timeout, s.Timeout)})
	case t.Deadline != 0:
		return context.WithDeadline(ctx, t.Deadline.Std())
	case s.Timeout > 0:
		return context.WithCancel(ctx) // Invoke sees to it
	}
	return context.WithTimeoutCause(ctx, w.cfg.DefaultTimeout, &tool.TimeoutError{After: w.cfg.DefaultTimeout})
}

func (w *Worker) invoker(log *zap.Logger) tool.Invoker {
	v := w.cfg.Invoker
	told := v.OnPanic
	v.OnPanic = func(c tool.Call, value any, stack []byte) {
		log.Error("tool panicked", zap.Error(fmt.Errorf("panic: %v", value)), zap.ByteString("stack", stack))
		if told != nil {
			told(c, value, stack)
		}
	}
	return v
}

package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// redelivery is how long after the end of a lease the server redelivers its task, at most.
const redelivery = time.Second

// loseTo claims the next task for a worker that then fails.
func loseTo(t *testing.T, b *bench) {
	t.Helper()
	if _, err := b.queue(t).Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	pass(lease + redelivery)
	synctest.Wait()
}

func TestCallThatMayRunTwiceRunsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dispatch(t, "echo", readOnly)
		loseTo(t, b)
		loseTo(t, b)
		w := b.start(t, worker.Config{}, echo())
		synctest.Wait()
		wantOutcome(t, b.only(t), content.StatusOK, "heard")
		w.end(t)
	})
}

func TestCallThatMayNotRunTwiceIsReportedLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		x := b.dispatch(t, "pay")
		loseTo(t, b)
		w := b.start(t, worker.Config{}, named("pay", func(context.Context, tool.Call) (tool.Output, error) {
			t.Error("the tool ran a second time")
			return tool.Output{}, nil
		}))
		synctest.Wait()
		if r := b.only(t); !r.Lost || r.Reason == "" || r.Attempt != 1 || b.queued(t, x) {
			t.Errorf("report = %+v, queued = %v, want the loss of attempt 1", r, b.queued(t, x))
		}
		w.end(t)
	})
}

// A tool in another process may not report whether it ran the call.
func TestCallWithAnUnknownOutcomeIsReportedLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{}, named("pay", func(context.Context, tool.Call) (tool.Output, error) {
			return tool.Output{}, tool.Failure(tool.CodeUnknown, "the connection broke")
		}))
		x := b.dispatch(t, "pay")
		synctest.Wait()
		if r := b.only(t); !r.Lost || !strings.Contains(r.Reason, "the connection broke") || r.Attempt != 1 || b.queued(t, x) {
			t.Errorf("report = %+v, queued = %v, want the loss of attempt 1", r, b.queued(t, x))
		}
		w.end(t)
	})
}

// The call's timeout is shorter than the lease, so it has passed before another worker gets the
// task.
func TestCallOfALostWorkerDoesNotTimeOut(t *testing.T) {
	t.Parallel()
	for name, effects := range map[string]content.Effects{"may run twice": content.ReadOnly, "may not": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				x := b.dispatch(t, "echo", func(x *task.Task) {
					x.Effects, x.Deadline = effects, content.TimeOf(time.Now().Add(lease/3))
				})
				loseTo(t, b)
				w := b.start(t, worker.Config{}, echo())
				synctest.Wait()
				if r := b.only(t); !r.Lost || r.Reason == "" || b.queued(t, x) {
					t.Errorf("report = %+v, queued = %v, want the loss", r, b.queued(t, x))
				}
				w.end(t)
			})
		})
	}
}

func TestCallThatKillsItsWorkersIsReportedLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dispatch(t, "echo", readOnly)
		for range 3 {
			loseTo(t, b)
		}
		w := b.start(t, worker.Config{}, echo())
		synctest.Wait()
		if r := b.only(t); !r.Lost || !strings.Contains(r.Reason, "3 workers") {
			t.Errorf("report = %+v, want the loss of 3 workers", r)
		}
		w.end(t)
	})
}

func TestReportIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.refuse = 20 // longer than a lease
		w := b.start(t, worker.Config{}, echo())
		other := b.start(t, worker.Config{}, echo())
		x := b.dispatch(t, "echo")
		pass(2 * time.Minute)
		synctest.Wait()
		wantOutcome(t, b.only(t), content.StatusOK, "heard")
		if b.queued(t, x) {
			t.Error("the task is still on its queue")
		}
		w.end(t)
		other.end(t)
	})
}

// partition wraps a queue whose claims can be disconnected.
type partition struct {
	task.Queue
	cut *atomic.Bool
}

func (p partition) Claim(ctx context.Context) (task.Claim, error) {
	c, err := p.Queue.Claim(ctx)
	return cutClaim{c, p.cut}, err
}

type cutClaim struct {
	task.Claim
	cut *atomic.Bool
}

var errCut = errors.New("no answer")

func (c cutClaim) Extend(ctx context.Context) error {
	if c.cut.Load() {
		<-ctx.Done()
		return errCut
	}
	return c.Claim.Extend(ctx)
}

func TestDisconnectedWorkerStopsItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var cut atomic.Bool
		cut.Store(true)
		var mu sync.Mutex
		var causes []error
		slow := named("slow", func(ctx context.Context, _ tool.Call) (tool.Output, error) {
			select {
			case <-time.After(lease + lease/2):
				return tool.Text("done"), nil
			case <-ctx.Done():
				mu.Lock()
				defer mu.Unlock()
				causes = append(causes, context.Cause(ctx))
				return tool.Output{}, ctx.Err()
			}
		})
		zombie := b.start(t, worker.Config{Queue: partition{b.queue(t), &cut}, Slots: 1}, slow)
		b.dispatch(t, "slow", readOnly)
		synctest.Wait()
		cut.Store(true)
		healthy := b.start(t, worker.Config{}, slow)
		pass(3 * lease)
		synctest.Wait()
		wantOutcome(t, b.only(t), content.StatusOK, "done")
		if len(causes) != 1 || !errors.Is(causes[0], task.ErrGone) {
			t.Errorf("causes = %v, want ErrGone once", causes)
		}
		zombie.end(t)
		healthy.end(t)
	})
}

func TestLateReportIsHarmless(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		x := b.dispatch(t, "echo")
		frozen, err := b.queue(t).Claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pass(lease + redelivery)
		w := b.start(t, worker.Config{}, echo())
		synctest.Wait()
		if r := b.only(t); !r.Lost {
			t.Fatalf("report = %+v, want the loss", r)
		}
		// The process resumes and ends its call, unaware of the loss.
		late := task.Report{Session: x.Session, Place: x.Place, Attempt: 1}
		if err := frozen.Report(t.Context(), late); err != nil {
			t.Errorf("Report = %v", err)
		}
		if err := frozen.Done(t.Context()); !errors.Is(err, task.ErrGone) {
			t.Errorf("Done = %v, want ErrGone", err)
		}
		next := b.dispatch(t, "echo", place("t1-r1-c2"))
		synctest.Wait()
		if all := b.all(); len(all) != 3 || b.queued(t, next) {
			t.Errorf("%d reports, want 3", len(all))
		}
		w.end(t)
	})
}

// flaky is a queue that gives no tasks for a while.
type flaky struct {
	task.Queue
	until time.Time
}

func (f flaky) Claim(ctx context.Context) (task.Claim, error) {
	if time.Now().Before(f.until) {
		return nil, errCut
	}
	return f.Queue.Claim(ctx)
}

// hostile is a queue with tasks that no driver signed.
type hostile struct {
	task.Queue
	left *atomic.Int64
}

func (h hostile) Claim(ctx context.Context) (task.Claim, error) {
	if h.left.Add(-1) >= 0 {
		return nil, task.ErrForged
	}
	return h.Queue.Claim(ctx)
}

// A forged task must not slow down other calls, or make the worker report that it has no queue.
func TestForgedTasksAreNoTroubleOfTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var left atomic.Int64
		left.Store(1000)
		b.dispatch(t, "echo")
		seen := tally{}
		w := b.start(t, worker.Config{Queue: hostile{b.queue(t), &left}, Observer: seen, Slots: 1}, echo())
		synctest.Wait()
		if seen["forged"] != 1000 {
			t.Errorf("%d forged tasks were counted", seen["forged"])
		}
		if err := w.Ready(); err != nil {
			t.Errorf("Ready = %v after forged tasks", err)
		}
		wantOutcome(t, b.only(t), content.StatusOK, "heard")
		w.end(t)
	})
}

func TestUnresponsiveQueueIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{Queue: flaky{b.queue(t), time.Now().Add(time.Minute)}}, echo())
		b.dispatch(t, "echo")
		pass(30 * time.Second)
		if err := w.Ready(); !errors.Is(err, errCut) {
			t.Errorf("Ready = %v, want why it gets no tasks", err)
		}
		pass(40 * time.Second)
		synctest.Wait()
		if err := w.Ready(); err != nil {
			t.Errorf("Ready = %v after it got a task", err)
		}
		wantOutcome(t, b.only(t), content.StatusOK, "heard")
		w.end(t)
	})
}

package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

func TestDrainLetsCallsFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{}, takes("short", 5*time.Second))
		b.dispatch(t, "short")
		synctest.Wait()
		next := b.dispatch(t, "short", place("t1-r1-c9"), func(x *task.Task) { x.Queue = "other" })
		if took := w.end(t); took != 5*time.Second {
			t.Errorf("Run ended after %v, want when the call did", took)
		}
		wantOutcome(t, b.only(t), content.StatusOK, "done")
		if !b.queued(t, next) {
			t.Error("a task of another queue was taken")
		}
	})
}

func TestDrainClaimsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{Slots: 2}, takes("short", 5*time.Second))
		b.dispatch(t, "short", place("t1-r1-c1"))
		synctest.Wait()
		w.stop()
		synctest.Wait()
		next := b.dispatch(t, "short", place("t1-r1-c2"))
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		if len(b.all()) != 1 || !b.queued(t, next) {
			t.Errorf("%d reports, want 1; the second task is queued: %v", len(b.all()), b.queued(t, next))
		}
	})
}

// closing records when a queue is closed.
type closing struct {
	task.Queue
	closed chan struct{}
}

func (c closing) Close(ctx context.Context) error {
	defer close(c.closed)
	return c.Queue.Close(ctx)
}

func TestDrainClosesTheQueueWhileCallsFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		q := closing{b.queue(t), make(chan struct{})}
		w := b.start(t, worker.Config{Queue: q, Slots: 2}, takes("short", 5*time.Second))
		b.dispatch(t, "short")
		synctest.Wait()
		w.stop()
		synctest.Wait()
		select {
		case <-q.closed:
		default:
			t.Error("the queue is not closed while the last call runs")
		}
		w.end(t)
		wantOutcome(t, b.only(t), content.StatusOK, "done")
		if _, err := q.Claim(t.Context()); !errors.Is(err, task.ErrClosed) {
			t.Errorf("Claim = %v, want ErrClosed", err)
		}
	})
}

func TestDrainReleasesCallsThatMayRunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var cause error
		w := b.start(t, worker.Config{DrainTimeout: time.Second}, named("slow", func(ctx context.Context, _ tool.Call) (tool.Output, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return tool.Output{}, ctx.Err()
		}))
		x := b.dispatch(t, "slow", readOnly)
		synctest.Wait()
		if took := w.end(t); took != time.Second {
			t.Errorf("Run ended after %v, want the drain timeout", took)
		}
		if !errors.Is(cause, worker.ErrStopped) {
			t.Errorf("cause = %v, want ErrStopped", cause)
		}
		if len(b.all()) != 0 || !b.queued(t, x) {
			t.Fatalf("reports = %+v, queued = %v, want the task back on its queue", b.all(), b.queued(t, x))
		}
		other := b.start(t, worker.Config{}, takes("slow", 0))
		synctest.Wait()
		wantOutcome(t, b.only(t), content.StatusOK, "done")
		other.end(t)
	})
}

func TestDrainReportsOtherCallsAsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{}, takes("deploy", time.Hour))
		x := b.dispatch(t, "deploy")
		synctest.Wait()
		w.end(t)
		if r := b.only(t); !r.Lost || r.Reason == "" || b.queued(t, x) {
			t.Errorf("report = %+v, queued = %v, want the loss", r, b.queued(t, x))
		}
	})
}

func TestDrainReportsAResultWithinTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{DrainTimeout: time.Second}, named("tidy", func(ctx context.Context, _ tool.Call) (tool.Output, error) {
			<-ctx.Done()
			pass(time.Second)
			return tool.Text("finished after all"), nil
		}))
		b.dispatch(t, "tidy")
		synctest.Wait()
		w.end(t)
		wantOutcome(t, b.only(t), content.StatusOK, "finished after all")
	})
}

func TestDrainReportsCallsThatNeverBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var runs atomic.Int32
		edit := named("edit", func(ctx context.Context, _ tool.Call) (tool.Output, error) {
			runs.Add(1)
			<-ctx.Done()
			return tool.Output{}, ctx.Err()
		})
		edit.spec.Exclusive = true
		w := b.start(t, worker.Config{}, edit)
		b.dispatch(t, "edit", place("t1-r1-c1"))
		synctest.Wait()
		b.dispatch(t, "edit", place("t1-r1-c2"))
		synctest.Wait()
		w.end(t)
		for _, r := range b.all() {
			switch r.Place {
			case "t1-r1-c1":
				if !r.Lost {
					t.Errorf("report of the call that ran = %+v, want its loss", r)
				}
			case "t1-r1-c2":
				wantOutcome(t, r, content.StatusError, "nothing was done")
				if r.Outcome.Result.Code != worker.CodeNotRun {
					t.Errorf("code = %s", r.Outcome.Result.Code)
				}
			}
		}
		if len(b.all()) != 2 || runs.Load() != 1 {
			t.Errorf("%d reports, want 2; %d runs, want 1", len(b.all()), runs.Load())
		}
	})
}

func TestDrainEndsAlthoughReportsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.refuse = 1 << 30
		w := b.start(t, worker.Config{}, echo())
		x := b.dispatch(t, "echo")
		synctest.Wait()
		if took := w.end(t); took > time.Minute {
			t.Errorf("Run ended after %v", took)
		}
		if !b.queued(t, x) {
			t.Error("the task is gone, but its outcome was never reported")
		}
	})
}

// stand records offers as a catalog does.
type stand struct {
	made      []time.Duration // since the start
	emptied   time.Duration
	withdrawn time.Duration
	start     time.Time
	tools     []string
}

func (s *stand) Advertise(_ context.Context, o task.Offer) error {
	if len(o.Tools) == 0 {
		if s.emptied == 0 {
			s.emptied = time.Since(s.start)
		}
		return nil
	}
	s.made = append(s.made, time.Since(s.start))
	s.tools = nil
	for _, spec := range o.Tools {
		s.tools = append(s.tools, spec.Name)
	}
	return nil
}

func (s *stand) Withdraw(context.Context) error {
	s.withdrawn = time.Since(s.start)
	return nil
}

func TestToolsAreOfferedUntilTheWorkerDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &stand{start: time.Now()}
		registry, err := tool.NewRegistry("own", echo())
		if err != nil {
			t.Fatal(err)
		}
		w := b.start(t, worker.Config{Offers: s, Tools: []tool.Source{registry}}, takes("long", 5*time.Second))
		pass(4 * time.Second)
		registry.Add(takes("zzz", 0))
		b.dispatch(t, "long")
		b.dispatch(t, "zzz", place("t1-r1-c2")) // known before the next offer
		pass(3 * time.Second)
		w.end(t)
		const tenth = time.Second / 10
		if diff := cmp.Diff([]time.Duration{0, 2 * tenth, 6 * tenth, 14 * tenth, 30 * tenth, 60 * tenth}, s.made); diff != "" {
			t.Errorf("offers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"echo", "long", "zzz"}, s.tools); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		if s.emptied != 7*time.Second || s.withdrawn != 9*time.Second {
			t.Errorf("nothing offered after %v, withdrawn after %v, want when the drain began, and when the call was over", s.emptied, s.withdrawn)
		}
		if len(b.all()) != 2 {
			t.Errorf("%d reports, want 2", len(b.all()))
		}
	})
}

// tally counts the events of a worker.
type tally map[string]int

func (y tally) Claimed(_ task.Task, delivery int) {
	y["claimed"]++
	if delivery > 1 {
		y["again"]++
	}
}
func (y tally) Started(task.Task)                   { y["started"]++ }
func (y tally) Finished(_ task.Task, r tool.Result) { y[string(r.Result.Status)]++ }
func (y tally) Settled(_ task.Task, f worker.Fate)  { y[string(f)]++ }
func (y tally) Forged()                             { y["forged"]++ }

func TestObserverSeesTheFateOfEachTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.dispatch(t, "echo", place("t1-r1-c1"))
		loseTo(t, b)
		counts := tally{}
		w := b.start(t, worker.Config{Slots: 1, Observer: counts}, echo(), takes("slow", time.Hour))
		b.dispatch(t, "echo", place("t1-r1-c2"))
		b.dispatch(t, "nope", place("t1-r1-c3"))
		b.dispatch(t, "slow", place("t1-r1-c4"), readOnly)
		synctest.Wait()
		w.end(t)
		want := tally{"claimed": 4, "again": 1, "started": 2, "ok": 1, "cancelled": 1, "lost": 1, "reported": 2, "released": 1}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

func TestInvalidConfigIsRefused(t *testing.T) {
	t.Parallel()
	q := recording{}
	for name, cfg := range map[string]worker.Config{
		"no queue":         {Logger: zap.NewNop()},
		"no logger":        {Queue: q},
		"negative slots":   {Queue: q, Logger: zap.NewNop(), Slots: -1},
		"negative timeout": {Queue: q, Logger: zap.NewNop(), DrainTimeout: -1},
	} {
		if w, err := worker.New(cfg); err == nil || w != nil {
			t.Errorf("New with %s = %v, %v, want an error", name, w, err)
		}
	}
}

// broken is a source that cannot list its tools.
type broken struct{}

func (broken) Name() string { return "broken" }

func (broken) Tools(context.Context) ([]tool.Tool, error) { return nil, errCut }

func TestWorkerWithoutAListOfToolsDoesNotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBench(t).start(t, worker.Config{Tools: []tool.Source{broken{}}})
		if err := <-w.ended; !errors.Is(err, errCut) {
			t.Errorf("Run = %v, want why", err)
		}
	})
}

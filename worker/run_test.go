package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

func TestCallIsRunReportedAndTakenOffItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var got tool.Call
		w := b.start(t, worker.Config{Resources: "shared"}, named("look", func(_ context.Context, c tool.Call) (tool.Output, error) {
			got = c
			return tool.Text("seen"), nil
		}))
		x := b.dispatch(t, "look", func(x *task.Task) { x.Attempt, x.Wake, x.Input = 2, true, []byte(`{"a":1}`) })
		synctest.Wait()

		got.Progress = nil
		want := tool.Call{
			Session: "s1", Turn: "turn-1", ID: "call-1", Place: "t1-r1-c1", Name: "look", Input: []byte(`{"a":1}`),
			Attempt: 2, IdempotencyKey: "s1/t1-r1-c1", Resources: "shared",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("call (-want +got):\n%s", diff)
		}
		r := b.only(t)
		wantOutcome(t, r, content.StatusOK, "seen")
		r.Outcome = tool.Result{}
		if diff := cmp.Diff(task.Report{Session: "s1", Call: "call-1", Place: "t1-r1-c1", Attempt: 2, Queue: turnlogtest.Queue, Wake: true}, r); diff != "" {
			t.Errorf("report (-want +got):\n%s", diff)
		}
		if b.queued(t, x) {
			t.Error("the task is still on its queue")
		}
		w.end(t)
	})
}

func TestLongCallKeepsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		long := takes("long", 10*time.Minute)
		w := b.start(t, worker.Config{DefaultTimeout: time.Hour}, long)
		other := b.start(t, worker.Config{DefaultTimeout: time.Hour}, long)
		b.dispatch(t, "long")
		pass(10*time.Minute + time.Second)
		synctest.Wait()
		r := b.only(t)
		wantOutcome(t, r, content.StatusOK, "done")
		if r.Outcome.Duration != 10*time.Minute {
			t.Errorf("duration = %v, want 10m", r.Outcome.Duration)
		}
		w.end(t)
		other.end(t)
	})
}

func TestDefaultTimeoutEndsACallWithoutDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{}, takes("long", time.Hour))
		b.dispatch(t, "long")
		pass(2 * time.Minute)
		synctest.Wait()
		wantOutcome(t, b.only(t), content.StatusError, "Tool timed out after 2m0s")
		w.end(t)
	})
}

func TestDeadlineOfTheTaskApplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{}, takes("long", 5*time.Minute))
		deadline := func(d time.Duration) func(*task.Task) {
			return func(x *task.Task) { x.Deadline = content.TimeOf(time.Now().Add(d)) }
		}
		b.dispatch(t, "long", place("t1-r1-c1"), deadline(10*time.Minute))
		b.dispatch(t, "long", place("t1-r1-c2"), deadline(time.Second))
		pass(6 * time.Minute)
		synctest.Wait()
		all := b.all()
		if len(all) != 2 {
			t.Fatalf("%d reports, want 2", len(all))
		}
		wantOutcome(t, all[0], content.StatusError, "Tool timed out after 1s")
		wantOutcome(t, all[1], content.StatusOK, "done")
		w.end(t)
	})
}

// One call was delayed before it began, and another waited for a third.
func TestTimeoutExcludesTheTimeBeforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own := takes("own", time.Hour)
		own.spec.Timeout = 100 * time.Millisecond
		waits := takes("waits", time.Hour)
		waits.spec.Exclusive = true
		w := b.start(t, worker.Config{DefaultTimeout: time.Minute}, own, waits)
		deadline := content.TimeOf(time.Now().Add(100 * time.Millisecond))
		pass(2 * time.Millisecond)
		b.dispatch(t, "own", func(x *task.Task) { x.Deadline = deadline })
		pass(time.Second)
		wantOutcome(t, b.only(t), content.StatusError, "Tool timed out after 100ms")
		b.dispatch(t, "waits", place("t1-r1-c2"))
		pass(30 * time.Second)
		b.dispatch(t, "waits", place("t1-r1-c3"))
		pass(2 * time.Minute)
		all := b.all()
		if len(all) != 3 {
			t.Fatalf("%d reports, want 3", len(all))
		}
		for _, r := range all[1:] {
			wantOutcome(t, r, content.StatusError, "Tool timed out after 1m0s")
		}
		w.end(t)
	})
}

func TestPastDeadlineIsATimeoutWithoutARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		x := b.dispatch(t, "never", func(x *task.Task) { x.Deadline = content.TimeOf(time.Now()) })
		w := b.start(t, worker.Config{}, named("never", func(context.Context, tool.Call) (tool.Output, error) {
			t.Error("the tool ran")
			return tool.Output{}, nil
		}))
		synctest.Wait()
		r := b.only(t)
		wantOutcome(t, r, content.StatusError, "Tool timed out")
		if r.Outcome.Result.Code != tool.CodeTimeout || b.queued(t, x) {
			t.Errorf("code = %s, queued = %v", r.Outcome.Result.Code, b.queued(t, x))
		}
		w.end(t)
	})
}

func TestUnknownToolAndBadInputAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		strict := echo()
		strict.spec.InputSchema = []byte(`{"type":"object","required":["city"]}`)
		w := b.start(t, worker.Config{Slots: 1}, strict)
		b.dispatch(t, "nope", place("t1-r1-c1"))
		b.dispatch(t, "echo", place("t1-r1-c2"))
		synctest.Wait()
		all := b.all()
		if len(all) != 2 {
			t.Fatalf("%d reports, want 2", len(all))
		}
		wantOutcome(t, all[0], content.StatusError, "Tool not found: nope")
		wantOutcome(t, all[1], content.StatusError, "Invalid arguments: ")
		w.end(t)
	})
}

func TestPanicBecomesAResultAndTheWorkerContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		core, logs := observer.New(zap.ErrorLevel)
		w := b.start(t, worker.Config{Slots: 1, Logger: zap.New(core)}, echo(), named("break", func(context.Context, tool.Call) (tool.Output, error) {
			panic("out of cheese")
		}))
		b.dispatch(t, "break", place("t1-r1-c1"))
		b.dispatch(t, "echo", place("t1-r1-c2"))
		synctest.Wait()
		all := b.all()
		if len(all) != 2 || logs.FilterMessage("tool panicked").Len() != 1 {
			t.Fatalf("%d reports, want 2; log: %v", len(all), logs.All())
		}
		wantOutcome(t, all[0], content.StatusError, "Tool failed: it panicked: out of cheese")
		if all[0].Outcome.Result.Code != tool.CodePanic {
			t.Errorf("code = %s", all[0].Outcome.Result.Code)
		}
		wantOutcome(t, all[1], content.StatusOK, "heard t1-r1-c2")
		w.end(t)
	})
}

func TestToolThatHangsIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		let := make(chan struct{})
		defer close(let)
		w := b.start(t, worker.Config{Slots: 1, DefaultTimeout: time.Minute}, echo(),
			named("hang", func(context.Context, tool.Call) (tool.Output, error) {
				<-let
				return tool.Output{}, nil
			}))
		b.dispatch(t, "hang", place("t1-r1-c1"))
		b.dispatch(t, "echo", place("t1-r1-c2"))
		pass(time.Minute + 6*time.Second)
		synctest.Wait()
		all := b.all()
		if len(all) != 2 {
			t.Fatalf("%d reports, want 2", len(all))
		}
		wantOutcome(t, all[0], content.StatusError, "Tool timed out after 1m0s")
		if _, ok := all[0].Outcome.Result.Metadata.Get(tool.MetaAbandoned); !ok {
			t.Error("the result does not say that the tool was abandoned")
		}
		wantOutcome(t, all[1], content.StatusOK, "heard")
		w.end(t)
	})
}

func TestCancelReachesTheToolAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var cause error
		w := b.start(t, worker.Config{}, named("wait", func(ctx context.Context, _ tool.Call) (tool.Output, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return tool.Output{}, cause
		}))
		x := b.dispatch(t, "wait")
		synctest.Wait()
		start := time.Now()
		if err := b.Cell.Tasks().Cancel(t.Context(), x.Queue, x.Session, x.Place, "user_cancelled"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantOutcome(t, b.only(t), content.StatusCancelled, "Cancelled before it reported a result")
		if waited := time.Since(start); waited > 0 {
			t.Errorf("the cancel took %v", waited)
		}
		if !errors.Is(cause, tool.ErrCancelled) || cause.Error() != "call cancelled: user_cancelled" {
			t.Errorf("cause = %v, want ErrCancelled with the reason", cause)
		}
		if b.queued(t, x) {
			t.Error("the task is still on its queue")
		}
		w.end(t)
	})
}

// guarded asks for an approval during its first call.
func guarded(runs *atomic.Int32) fake {
	return named("write", func(_ context.Context, c tool.Call) (tool.Output, error) {
		if !slices.Contains(c.Approved, content.QuestionKey{Kind: "filesystem.write"}) {
			return tool.Output{}, tool.NeedsApproval(tool.Verdict{RequestKind: "filesystem.write", Summary: "write /etc/hosts"})
		}
		runs.Add(1)
		return tool.Text("written"), nil
	})
}

func TestQuestionIsReportedAndTheCallRunsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var runs atomic.Int32
		counts := tally{}
		w := b.start(t, worker.Config{Slots: 1, Observer: counts}, guarded(&runs))
		x := b.dispatch(t, "write")
		synctest.Wait()
		r := b.only(t)
		if r.Question == nil || r.Question.RequestKind != "filesystem.write" || r.Lost || r.Attempt != 1 {
			t.Fatalf("report = %+v, want the question", r)
		}
		if b.queued(t, x) || runs.Load() != 0 || counts["asked"] != 1 {
			t.Errorf("queued = %v, %d runs, counts %v", b.queued(t, x), runs.Load(), counts)
		}
		b.dispatch(t, "write", func(x *task.Task) { x.Approved = []content.QuestionKey{{Kind: "filesystem.write"}} })
		synctest.Wait()
		if all := b.all(); len(all) != 2 || runs.Load() != 1 {
			t.Fatalf("%d reports, want 2, %d runs, want 1", len(all), runs.Load())
		}
		wantOutcome(t, b.all()[1], content.StatusOK, "written")
		w.end(t)
	})
}

// The worker removed the task, and its question was lost. A call that may not run twice must not
// end as unknown because of that.
func TestLostQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.refuse = 1 << 30
		var runs atomic.Int32
		w := b.start(t, worker.Config{Slots: 1}, guarded(&runs))
		x := b.dispatch(t, "write")
		pass(time.Minute)
		if b.queued(t, x) || len(b.all()) != 0 {
			t.Fatalf("queued = %v, reports = %+v, want neither", b.queued(t, x), b.all())
		}
		b.mu.Lock()
		b.refuse = 0
		b.mu.Unlock()
		b.dispatch(t, "write") // like a driver that finds neither task nor report
		synctest.Wait()
		if r := b.only(t); r.Question == nil {
			t.Errorf("report = %+v, want the question", r)
		}
		w.end(t)
	})
}

func TestExclusiveToolHasOneCallAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var inside, most atomic.Int32
		edit := named("edit", func(context.Context, tool.Call) (tool.Output, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			pass(time.Second)
			inside.Add(-1)
			return tool.Text("done"), nil
		})
		edit.spec.Exclusive = true
		w := b.start(t, worker.Config{}, edit)
		for _, p := range []content.Place{"t1-r1-c1", "t1-r1-c2", "t1-r1-c3"} {
			b.dispatch(t, "edit", place(p))
		}
		pass(3 * time.Second)
		synctest.Wait()
		if len(b.all()) != 3 || most.Load() != 1 {
			t.Errorf("%d reports, want 3; %d calls at once, want 1", len(b.all()), most.Load())
		}
		w.end(t)
	})
}

func TestProgressIsLimitedButTheLastUpdateAlwaysArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var seen []string
		cfg := worker.Config{Progress: func(x task.Task, text string, share float64) {
			if x.Place != "t1-r1-c1" || share != 0.5 {
				t.Errorf("progress of %s: %v", x.Place, share)
			}
			seen = append(seen, text)
		}}
		w := b.start(t, cfg, named("count", func(_ context.Context, c tool.Call) (tool.Output, error) {
			for _, text := range []string{"a", "b", "c"} {
				c.Progress(text, 0.5)
			}
			pass(time.Second)
			c.Progress("d", 0.5)
			c.Progress("e", 0.5)
			return tool.Output{}, nil
		}))
		b.dispatch(t, "count")
		pass(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "c", "d", "e"}, seen); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		w.end(t)
	})
}

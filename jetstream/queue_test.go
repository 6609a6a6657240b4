package jetstream

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/task"
	"github.com/turnlog/turnlog/tool"
)

func shellTask(p content.Place) task.Task {
	return task.Task{Session: "s1", Place: p, Attempt: 1, Queue: "tools", Tool: "shell_exec", Input: []byte(`{}`)}
}

func worker(t testing.TB, nc *nats.Conn) *Queue {
	t.Helper()
	q, err := openCell(t, nc).Queue(t.Context(), "tools")
	must(t, err)
	return q
}

func claimTask(t testing.TB, q *Queue, patience time.Duration) task.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := q.Claim(ctx)
	if err != nil {
		t.Fatalf("Claim = %v, want a task", err)
	}
	return c
}

func TestLargeTasksTravelByReference(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		x := shellTask("t1-r1-c1")
		x.Input = append(append([]byte(`"`), bytes.Repeat([]byte("x"), 2<<20)...), '"')
		must(t, c.Tasks().Dispatch(t.Context(), x))
		got := claimTask(t, worker(t, c.nc), time.Second)
		if !reflect.DeepEqual(x, got.Task()) {
			t.Error("the large task is not what was dispatched")
		}
		r := task.Report{Session: "s1", Place: x.Place, Attempt: 1, Queue: "tools", Outcome: tool.Result{
			Result: content.NewResult("c1", "shell_exec", content.StatusOK, string(bytes.Repeat([]byte("y"), 2<<20))),
		}}
		must(t, got.Report(t.Context(), r))
		if !reflect.DeepEqual([]task.Report{r}, reportsOf(t, c, "s1")) {
			t.Error("the large report is not what was sent")
		}
	})
}

func TestReportWakesAParkedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		q, runs := worker(t, c.nc), c.Runs()
		report := func(place content.Place, dispatched, reported bool) {
			t.Helper()
			x := shellTask(place)
			x.Wake = dispatched
			must(t, c.Tasks().Dispatch(t.Context(), x))
			got := claimTask(t, q, time.Second)
			must(t, got.Report(t.Context(), task.Report{Session: "s1", Place: place, Attempt: 1, Queue: "tools", Wake: reported}))
			must(t, got.Done(t.Context()))
		}
		report("t1-r1-c1", false, false)
		takeNothing(t, runs, time.Second)
		for i, by := range []struct{ task, report bool }{{true, false}, {false, true}} {
			report(content.PlaceOf(1, 2, i+1), by.task, by.report)
			token := take(t, runs, 100*time.Millisecond)
			if n := len(read(t, c, "s1")); n != i+2 {
				t.Errorf("%d reports when the token came, want %d", n, i+2)
			}
			must(t, token.Done(t.Context()))
			must(t, token.WaitGone(within(t, time.Second)))
		}
	})
}

func TestReportsOfOneAttemptHaveOneID(t *testing.T) {
	t.Parallel()
	r := task.Report{Session: "s1", Place: "t1-r2-c3", Attempt: 4, Queue: "tools", Reason: "gone"}
	want := commands.Envelope{
		ID: "result/t1-r2-c3/4", Session: "s1", TraceParent: "trace",
		Command: commands.ReportResult{Place: "t1-r2-c3", Attempt: 4, Queue: "tools"},
	}
	if diff := cmp.Diff(want, envelopeOf(r, "trace")); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	r.Lost = true
	want.ID = "lost/t1-r2-c3/4"
	want.Command = commands.ReportAttemptLost{Place: "t1-r2-c3", Attempt: 4, Queue: "tools", Reason: "gone"}
	if diff := cmp.Diff(want, envelopeOf(r, "trace")); diff != "" {
		t.Errorf("loss (-want +got):\n%s", diff)
	}
}

// TestDeliveryCountsOnlyWhatWasHandedOut has three workers drain while their last
// requests stand on the server: the next worker must not take the task for one
// that was begun and lost.
func TestDeliveryCountsOnlyWhatWasHandedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), QueueConfig{Name: "tools"})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := worker(t, connect(t, s)).Claim(ctx); err == nil {
				t.Fatal("Claim gave a task, want none")
			}
			cancel()
		}
		must(t, c.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c1")))
		first := claimTask(t, worker(t, connect(t, s)), time.Second)
		if first.Delivery() != 1 {
			t.Fatalf("Delivery = %d, want 1: nobody has begun the task", first.Delivery())
		}
		raw := first.(*claim)
		if meta, err := (&nats.Msg{Reply: raw.reply, Sub: &nats.Subscription{}}).Metadata(); err != nil || meta.NumDelivered != 4 {
			t.Fatalf("the server counts %+v, %v, want 4 deliveries", meta, err)
		}
		second := claimTask(t, worker(t, connect(t, s)), time.Minute)
		if second.Delivery() != 2 {
			t.Errorf("Delivery after a loss = %d, want 2", second.Delivery())
		}
	})
}

func TestClaimThatArrivesWithItsCancelIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), QueueConfig{Name: "tools"})
		first, second := worker(t, connect(t, s)), worker(t, connect(t, s))
		x := shellTask("t1-r1-c1")
		must(t, c.Tasks().Dispatch(t.Context(), x))
		held := claimTask(t, first, time.Second)
		must(t, c.Tasks().Cancel(t.Context(), "tools", "s1", x.Place, "user_cancelled"))
		synctest.Wait()
		must(t, held.Release(t.Context())) // a worker that was told to stop and drains at that moment
		got := claimTask(t, second, time.Second)
		select {
		case <-got.Cancelled():
		default:
			t.Fatal("a cancelled task was handed out as if nothing had been")
		}
		if got.CancelReason() != "user_cancelled" {
			t.Errorf("CancelReason = %q, want user_cancelled", got.CancelReason())
		}
		must(t, got.Done(t.Context()))

		must(t, c.Tasks().Dispatch(t.Context(), x)) // another task, though of the same place
		select {
		case <-claimTask(t, second, time.Second).Cancelled():
			t.Error("the cancel of a task that is over hit the next one of its place")
		default:
		}
	})
}

func TestManyCancelsAreNotKeptForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		q := worker(t, c.nc)
		for i := range rememberedCancels + 10 {
			x := shellTask(content.PlaceOf(1, 1, i+1))
			must(t, c.Tasks().Dispatch(t.Context(), x))
			must(t, c.Tasks().Cancel(t.Context(), "tools", "s1", x.Place, "no"))
		}
		must(t, c.nc.Publish(c.names.cancel("s1"), []byte("no notice")))
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.cancels) != rememberedCancels {
			t.Errorf("%d cancels are remembered, want %d", len(q.cancels), rememberedCancels)
		}
	})
}

func TestConcurrencyOfAQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools", Concurrency: 2})
		q := worker(t, c.nc)
		for i := range 4 {
			must(t, c.Tasks().Dispatch(t.Context(), shellTask(content.PlaceOf(1, 1, i+1))))
		}
		one := claimTask(t, q, time.Second)
		claimTask(t, q, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Claim(ctx); err == nil {
			t.Fatal("a third task was handed out on a queue for two")
		}
		// A task that is removed while it is held gives its slot back, like one that is done.
		must(t, c.Tasks().remove(t.Context(), one.(*claim).seq))
		claimTask(t, q, time.Second)
	})
}

func TestQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		if _, err := c.Queue(t.Context(), "tools"); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Queue = %v, want ErrNotProvisioned", err)
		}
		bare := openCell(t, connect(t, startServer(t)))
		if _, err := bare.Queue(t.Context(), "tools"); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Queue without a cell = %v, want ErrNotProvisioned", err)
		}
		// Tasks wait for the first worker of a queue, and can be cancelled until then.
		for _, p := range []content.Place{"t1-r1-c1", "t1-r1-c2"} {
			must(t, c.Tasks().Dispatch(t.Context(), shellTask(p)))
		}
		must(t, c.Tasks().Cancel(t.Context(), "tools", "s1", "t1-r1-c1", "no"))
		must(t, c.EnsureQueue(t.Context(), QueueConfig{Name: "tools", AckWait: time.Minute}))
		q := worker(t, c.nc)
		got := claimTask(t, q, time.Second)
		if got.Task().Place != "t1-r1-c2" || got.Lease() != time.Minute {
			t.Errorf("claimed %s for %v, want t1-r1-c2 for a minute", got.Task().Place, got.Lease())
		}
	})
}

func TestTaskThatCannotBeReadIsReportedAndStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		q := worker(t, c.nc)
		_, err := c.publish(t.Context(), &nats.Msg{Subject: c.names.task("tools", "s1", "t1-r1-c1"), Data: []byte("no task")})
		must(t, err)
		if _, err := q.Claim(within(t, time.Second)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Claim = %v, want that the task cannot be read", err)
		}
		must(t, c.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c2")))
		if got := claimTask(t, q, time.Second); got.Task().Place != "t1-r1-c2" {
			t.Errorf("claimed %s, want the task behind the bad one", got.Task().Place)
		}
		queued, err := c.Tasks().Queued(t.Context(), "tools", "s1", "t1-r1-c1")
		if !queued || err != nil {
			t.Errorf("Queued = %v, %v, want the bad task where it was", queued, err)
		}
	})
}

func TestDispatchRefusesNamesThatAreNoTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := newCell(t).Tasks()
		for _, bad := range []func(*task.Task){
			func(x *task.Task) { x.Queue = "a.b" },
			func(x *task.Task) { x.Session = "*" },
			func(x *task.Task) { x.Place = "" },
		} {
			x := shellTask("t1-r1-c1")
			bad(&x)
			if err := tasks.Dispatch(t.Context(), x); !errors.Is(err, content.ErrBadID) {
				t.Errorf("Dispatch of %s/%s/%s = %v, want ErrBadID", x.Queue, x.Session, x.Place, err)
			}
		}
	})
}

// TestDispatchIsNotRepeatedBlindly cuts the server's answer off: the task may
// have been run and taken off already, so a second publish could run it twice.
func TestDispatchIsNotRepeatedBlindly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), QueueConfig{Name: "tools"})
		// Somebody who swallows what is sent hides that there is no stream behind it.
		deaf := openCellNamed(t, connect(t, s), "deaf")
		heard := make(chan *nats.Msg, 8)
		_, err := c.nc.ChanSubscribe("deaf.task.>", heard)
		must(t, err)
		synctest.Wait()
		err = deaf.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c1"))
		if !errors.Is(err, errUnclear) {
			t.Errorf("Dispatch = %v, want errUnclear", err)
		}
		if n := len(heard); n != 1 {
			t.Errorf("the task was sent %d times, want once", n)
		}
		notice, err := msgpack.Marshal(cancelNotice{Queue: "tools", Place: "t1-r1-c1", Reason: "x"})
		must(t, err)
		must(t, c.nc.Publish(c.names.cancel("s1"), notice)) // of no task that is known: nothing comes of it
	})
}

func openCellNamed(t testing.TB, nc *nats.Conn, ns string) *Cell {
	t.Helper()
	c, err := Open(nc, ns)
	must(t, err)
	return c
}

func TestLanesOfSubjects(t *testing.T) {
	t.Parallel()
	n := newNames("x")
	for subject, want := range map[string]events.Lane{
		n.cmd("s1", events.LaneAsk):            events.LaneAsk,
		n.live(n.cmd("s1", events.LaneDecide)): events.LaneDecide,
		n.live(n.cmd("due", events.LaneAsk)):   events.LaneAsk,
		n.due("s1"):                            events.LaneDue,
		n.live(n.due("ask")):                   events.LaneDue,
	} {
		if got := n.laneOf(subject); got != want {
			t.Errorf("lane of %s = %q, want %q", subject, got, want)
		}
	}
}

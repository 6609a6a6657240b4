package jetstream

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/tasktest"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
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

func TestLargeTasksAreBlobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		x := shellTask("t1-r1-c1")
		x.Input = append(append([]byte(`"`), bytes.Repeat([]byte("x"), 2<<20)...), '"')
		must(t, c.Tasks().Dispatch(t.Context(), x))
		got := claimTask(t, worker(t, c.nc), time.Second)
		if !reflect.DeepEqual(x, got.Task()) {
			t.Error("the large task differs from the dispatched one")
		}
		r := task.Report{Session: "s1", Place: x.Place, Attempt: 1, Queue: "tools", Outcome: tool.Result{
			Result: content.NewResult("c1", "shell_exec", content.StatusOK, string(bytes.Repeat([]byte("y"), 2<<20))),
		}}
		must(t, got.Report(t.Context(), r))
		if !reflect.DeepEqual([]task.Report{r}, reportsOf(t, c, "s1")) {
			t.Error("the large report differs from the sent one")
		}
	})
}

func TestReportWakesAParkedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
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

func TestReportsOfAnAttemptHaveOneID(t *testing.T) {
	t.Parallel()
	r := task.Report{Session: "s1", Place: "t1-r2-c3", Attempt: 4, Queue: "tools", Reason: "gone"}
	want := commands.Envelope{
		ID: "result/t1-r2-c3/4", Session: "s1", TraceParent: "trace",
		Command: commands.ReportResult{Place: "t1-r2-c3", Attempt: 4, Queue: "tools"},
	}
	if diff := cmp.Diff(want, (&claim{queue: &Queue{cell: &Cell{}}, task: task.Task{TraceParent: "trace", Approved: []content.QuestionKey{{Kind: "a"}}}}).envelope(r)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	r.Lost = true
	want.ID = "lost/t1-r2-c3/4"
	want.Command = commands.ReportAttemptLost{Place: "t1-r2-c3", Attempt: 4, Queue: "tools", Reason: "gone"}
	if diff := cmp.Diff(want, (&claim{queue: &Queue{cell: &Cell{}}, task: task.Task{TraceParent: "trace", Approved: []content.QuestionKey{{Kind: "a"}}}}).envelope(r)); diff != "" {
		t.Errorf("loss (-want +got):\n%s", diff)
	}
	r.Lost, r.Question = false, &tool.Verdict{RequestKind: "k", Reason: content.SensitivePath, Summary: "s", TTL: time.Hour}
	want.ID = "gate/t1-r2-c3/4/1"
	r.Question.Scope, r.Question.Also = "/a", []tool.Verdict{{RequestKind: "l"}}
	want.Command = commands.ReportQuestion{
		Place: "t1-r2-c3", Attempt: 4, N: 1, Also: []commands.Question{{RequestKind: "l"}},
		Question: commands.Question{RequestKind: "k", Scope: "/a", Reason: content.SensitivePath, Summary: "s", TTL: time.Hour},
	}
	if diff := cmp.Diff(want, (&claim{queue: &Queue{cell: &Cell{}}, task: task.Task{TraceParent: "trace", Approved: []content.QuestionKey{{Kind: "a"}}}}).envelope(r)); diff != "" {
		t.Errorf("question (-want +got):\n%s", diff)
	}
}

// TestDeliveryCountsOnlyClaimedDeliveries drains three workers with pending requests. The next
// worker must not see the task as started and lost.
func TestDeliveryCountsOnlyClaimedDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
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
			t.Fatalf("Delivery = %d, want 1: no worker has begun the task", first.Delivery())
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

// TestClosedQueueHasNoPendingRequests reads the server's count. A pending request of an ended
// process would hold a task until its lease expires.
func TestClosedQueueHasNoPendingRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		nc := connect(t, s)
		q := worker(t, nc)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := q.Claim(ctx); err == nil {
				t.Fatal("Claim gave a task, want none")
			}
			cancel()
		}
		start := time.Now()
		must(t, q.Close(t.Context()))
		if took := time.Since(start); took > 125*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		synctest.Wait()
		if n := nc.NumSubscriptions(); n != 1 { // the connection's own, for replies
			t.Errorf("%d subscriptions are left of a closed queue", n)
		}
		must(t, c.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c1")))
		got := claimTask(t, worker(t, connect(t, s)), time.Second)
		meta, err := (&nats.Msg{Reply: got.(*claim).reply, Sub: &nats.Subscription{}}).Metadata()
		if err != nil || meta.NumDelivered != 1 {
			t.Errorf("the server counts %+v, %v, want 1 delivery", meta, err)
		}
	})
}

// TestClosingAQueueLosesNoTask dispatches tasks while requests are withdrawn. Each is claimed at
// once, without an expired lease.
func TestClosingAQueueLosesNoTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		staying := worker(t, connect(t, s))
		claimed := make(chan task.Claim)
		for range 2 {
			go func() {
				for {
					got, err := staying.Claim(t.Context())
					if err != nil {
						return
					}
					claimed <- got
				}
			}()
		}
		start, n := time.Now(), 0
		for range 10 {
			leaving := worker(t, connect(t, s))
			ctx, leave := context.WithCancel(t.Context())
			var left sync.WaitGroup
			for range 8 {
				left.Go(func() {
					if got, err := leaving.Claim(ctx); err == nil {
						must(t, got.Release(context.WithoutCancel(ctx)))
					}
				})
			}
			synctest.Wait()
			left.Go(func() { must(t, leaving.Close(t.Context())) })
			for range 8 {
				n++
				must(t, c.Tasks().Dispatch(t.Context(), shellTask(content.PlaceOf(1, 1, n))))
			}
			for range 8 {
				must(t, (<-claimed).Done(t.Context()))
			}
			leave()
			left.Wait()
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%d tasks took %v: some waited for a lease", n, took)
		}
	})
}

func TestQueueCanCloseAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		nc := connect(t, s)
		q := worker(t, nc)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Claim(ctx); err == nil {
			t.Fatal("Claim gave a task, want none")
		}
		reconnect(t, nc)
		synctest.Wait()
		must(t, nc.FlushWithContext(within(t, time.Minute)))
		must(t, q.Close(t.Context()))
		must(t, c.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c1")))
		if got := claimTask(t, worker(t, connect(t, s)), time.Second); got.Delivery() != 1 {
			t.Errorf("Delivery = %d, want 1", got.Delivery())
		}
	})
}

func TestQueueCanCloseAfterItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		provision(t, connect(t, s), queueOf{name: "tools"})
		nc := connect(t, s)
		q := worker(t, nc)
		ended := make(chan error, 1)
		go func() {
			_, err := q.Claim(t.Context())
			ended <- err
		}()
		synctest.Wait()
		nc.Close()
		must(t, q.Close(within(t, time.Second)))
		if err := <-ended; err == nil {
			t.Error("Claim gave a task")
		}
	})
}

func TestMalformedTasksAreRejected(t *testing.T) {
	t.Parallel()
	var x task.Task
	good, err := encodeValue(shellTask("t1-r1-c1"))
	must(t, err)
	must(t, decodeValue(good, &x))
	promise := append(bytes.Clone(good), 0) // one more field: a list of four billion
	promise[0]++
	promise = append(promise[:len(promise)-1], 0xa2, 'a', 'p', 0xdd, 0xff, 0xff, 0xff, 0xff)
	for name, b := range map[string][]byte{
		"a list of missing items": promise,
		"trailing bytes":          append(bytes.Clone(good), 0xc0),
		"an unknown type":         {0x81, 0xa1, 's', 0xd4, 1, 2},
		"too deep a value":        append(bytes.Repeat([]byte{0x91}, 1<<20), 0xc0),
		"nothing":                 nil,
	} {
		if err := decodeValue(b, &x); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("decode of %s = %v, want ErrMalformed", name, err)
		}
	}
}

func TestClaimIsCanceledByAConcurrentCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		first, second := worker(t, connect(t, s)), worker(t, connect(t, s))
		x := shellTask("t1-r1-c1")
		must(t, c.Tasks().Dispatch(t.Context(), x))
		held := claimTask(t, first, time.Second)
		must(t, c.Tasks().Cancel(t.Context(), "tools", "s1", x.Place, "user_cancelled"))
		synctest.Wait()
		must(t, held.Release(t.Context())) // a worker that receives the cancel while it drains
		got := claimTask(t, second, time.Second)
		select {
		case reason := <-tasktest.Canceled(got):
			if reason != "user_cancelled" {
				t.Errorf("canceled for %q, want user_cancelled", reason)
			}
		default:
			t.Fatal("Claim returned a canceled task without its cancel")
		}
		must(t, got.Done(t.Context()))

		must(t, c.Tasks().Dispatch(t.Context(), x)) // another task at the same place
		select {
		case <-tasktest.Canceled(claimTask(t, second, time.Second)):
			t.Error("the cancel of a task that is over hit the next one of its place")
		default:
		}
	})
}

// A closed connection does not come back, so a worker that tried again would only delay its end.
func TestAClaimIsGoneWithItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		nc := connect(t, s)
		w := worker(t, nc)
		x := shellTask("t1-r1-c1")
		must(t, c.Tasks().Dispatch(t.Context(), x))
		held := claimTask(t, w, time.Second)
		nc.Close()
		report := task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue}
		for what, err := range map[string]error{
			"Extend": held.Extend(t.Context()), "Begin": held.Begin(t.Context()), "Report": held.Report(t.Context(), report),
			"Done": held.Done(t.Context()), "Release": held.Release(t.Context()),
		} {
			if !errors.Is(err, task.ErrGone) {
				t.Errorf("%s = %v, want ErrGone", what, err)
			}
		}
	})
}

func TestRememberedCancelsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		q := worker(t, c.nc)
		for i := range rememberedCancels + 10 {
			x := shellTask(content.PlaceOf(1, 1, i+1))
			must(t, c.Tasks().Dispatch(t.Context(), x))
			must(t, c.Tasks().Cancel(t.Context(), "tools", "s1", x.Place, "no"))
		}
		must(t, c.nc.Publish(c.names.Cancel("s1"), []byte("no notice")))
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
		c := newCell(t, queueOf{name: "tools", concurrency: 2})
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
		// A task that is removed while it is held frees its slot.
		must(t, c.Tasks().remove(t.Context(), one.(*claim).seq))
		claimTask(t, q, time.Second)
	})
}

func TestMissingQueueIsAnError(t *testing.T) {
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
		// Tasks wait for the first worker of a queue and can be canceled until then.
		for _, p := range []content.Place{"t1-r1-c1", "t1-r1-c2"} {
			must(t, c.Tasks().Dispatch(t.Context(), shellTask(p)))
		}
		must(t, c.Tasks().Cancel(t.Context(), "tools", "s1", "t1-r1-c1", "no"))
		createQueue(t, c, queueOf{name: "tools", lease: time.Minute})
		q := worker(t, c.nc)
		got := claimTask(t, q, time.Second)
		if got.Task().Place != "t1-r1-c2" || got.Lease() != time.Minute {
			t.Errorf("claimed %s for %v, want t1-r1-c2 for a minute", got.Task().Place, got.Lease())
		}
	})
}

func TestUnreadableTaskIsAnErrorAndFreesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		q := worker(t, c.nc)
		_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.Task("tools", "s1", "t1-r1-c1"), Data: []byte("no task")})
		must(t, err)
		if _, err := q.Claim(within(t, time.Second)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Claim = %v, want that the task cannot be read", err)
		}
		must(t, c.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c2")))
		if got := claimTask(t, q, time.Second); got.Task().Place != "t1-r1-c2" {
			t.Errorf("claimed %s, want the task after the bad one", got.Task().Place)
		}
		// No worker can run the stored task, so Dispatch replaces it.
		x := shellTask("t1-r1-c1")
		if queued, err := c.Tasks().Queued(t.Context(), x); queued || err != nil {
			t.Errorf("Queued = %v, %v, want that the call is not there", queued, err)
		}
		must(t, c.Tasks().Dispatch(t.Context(), x))
		if got := claimTask(t, q, time.Second); got.Task().Place != "t1-r1-c1" {
			t.Errorf("claimed %s, want the task in place of the bad one", got.Task().Place)
		}
	})
}

func TestDispatchRejectsBadNames(t *testing.T) {
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

// TestDispatchDoesNotRetryAfterAnUnknownOutcome loses the server's answer. The task may have run
// already, so a second publish could run it twice.
func TestDispatchDoesNotRetryAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		// A subscriber that does not answer hides that there is no stream.
		deaf := cellAt(t, connect(t, s), "deaf")
		heard := make(chan *nats.Msg, 8)
		_, err := c.nc.ChanSubscribe("deaf.task.>", heard)
		must(t, err)
		synctest.Wait()
		err = deaf.Tasks().Dispatch(t.Context(), shellTask("t1-r1-c1"))
		if !errors.Is(err, ErrUnclear) {
			t.Errorf("Dispatch = %v, want ErrUnclear", err)
		}
		if n := len(heard); n != 1 {
			t.Errorf("the task was sent %d times, want once", n)
		}
		notice, err := msgpack.Marshal(cancelNotice{Queue: "tools", Place: "t1-r1-c1", Reason: "x"})
		must(t, err)
		must(t, c.nc.Publish(c.names.Cancel("s1"), notice)) // for an unknown task: it has no effect
	})
}

// Calls with large tasks run one after the other if they may take more memory than there is. A call that
// waits stays claimed and is delivered only once.
func TestLargeTasksWaitForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		large := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 10<<20)...), '"')
		for _, p := range []content.Place{"t1-r1-c1", "t1-r1-c2", "t1-r1-c3"} {
			x := shellTask(p)
			if x.Input = large; p == "t1-r1-c3" {
				x.Input = []byte(`{}`)
			}
			must(t, c.Tasks().Dispatch(t.Context(), x))
		}
		q := worker(t, c.nc)
		first := claimTask(t, q, time.Second)
		second := make(chan task.Claim)
		go func() { second <- claimTask(t, q, time.Hour) }()
		synctest.Wait()
		if third := claimTask(t, q, time.Second); third.Task().Place != "t1-r1-c3" {
			t.Errorf("claimed %s, want the small task", third.Task().Place)
		}
		for range 5 {
			<-time.After(q.lease / 2)
			must(t, first.Extend(t.Context()))
		}
		select {
		case <-second:
			t.Fatal("both large tasks are here")
		default:
		}
		must(t, first.Done(t.Context()))
		if got := <-second; got.Delivery() != 1 || got.Task().Place != "t1-r1-c2" {
			t.Errorf("claimed %s, delivery %d", got.Task().Place, got.Delivery())
		} else {
			must(t, got.Done(t.Context()))
		}
		must(t, q.Close(t.Context()))
	})
}

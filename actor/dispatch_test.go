package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// flaky sits between drivers and queues.
type flaky struct {
	task.Dispatcher
	dispatch func(ctx context.Context, x task.Task, next task.Dispatcher) error
}

func (f flaky) Dispatch(ctx context.Context, x task.Task) error {
	return f.dispatch(ctx, x, f.Dispatcher)
}

func (w *world) flakyNode(name string, dispatch func(context.Context, task.Task, task.Dispatcher) error) *turnlogtest.Process {
	w.T.Helper()
	return w.nodeWith(name, func(n *actor.Node) {
		n.Between(func(next task.Dispatcher) task.Dispatcher { return flaky{next, dispatch} })
	})
}

var errCut = errors.New("no answer")

func TestACallWithAnUncertainDispatchRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ran []content.Place
		w.worker(func(x task.Task) tool.Result {
			ran = append(ran, x.Place)
			return echoed(x)
		})
		n := w.flakyNode("n1", func(ctx context.Context, x task.Task, next task.Dispatcher) error {
			w.dropLiveCopies("TURNLOG_INBOX") // no live copy of the result either
			x.Direct = false
			if err := next.Dispatch(ctx, x); err != nil {
				return err
			}
			<-time.After(2 * time.Second) // it runs, reports, and leaves the queue
			return errCut
		})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.finish(s)
		<-time.After(time.Minute)
		if len(ran) != 1 {
			t.Errorf("ran %v, want one call", ran)
		}
		w.Records("s")
		n.Drain(t)
	})
}

func TestABackgroundCallIsOnItsQueueBeforeTheSessionParks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.workerOf(tool.Spec{Name: "echo", Effects: content.ReadOnly, Route: content.Background}, echoed)
		began := time.Now()
		n := w.flakyNode("n1", func(ctx context.Context, x task.Task, next task.Dispatcher) error {
			if time.Since(began) < time.Minute {
				return errCut
			}
			return next.Dispatch(ctx, x)
		})
		s := w.Start("s", "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: ok\n    repeat: true\n")
		w.submit(s, "go")
		w.finish(s)
		w.Until("s", events.KindToolResultReceived)
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("the background call took %v", took)
		}
		w.Records("s")
		n.Drain(t)
	})
}

// The worker that reported its attempt lost dies before it takes the task off the queue, and the
// node dies before it publishes the next attempt.
func TestAnEarlierAttemptOnTheQueueDoesNotBlockALaterOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "echo", Effects: content.ReadOnly}}}
		if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
			t.Fatal(err)
		}
		q, err := w.Open(w.Connect()).Queue(w.Ctx, "q")
		if err != nil {
			t.Fatal(err)
		}
		first := w.flakyNode("n1", func(ctx context.Context, x task.Task, next task.Dispatcher) error {
			if x.Attempt > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return next.Dispatch(ctx, x)
		})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		c, err := q.Claim(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		x := c.Task()
		lost := task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: 1, Queue: "q", Lost: true, Reason: "gone"}
		if err := c.Report(w.Ctx, lost); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindToolAttemptLost)
		first.Crash(t)
		second := w.node("n2")
		within, cancel := context.WithTimeout(w.Ctx, c.Lease()/2) // the dead worker holds it for longer
		defer cancel()
		if c, err = q.Claim(within); err != nil {
			t.Fatalf("the second attempt: %v", err)
		}
		if got := c.Task().Attempt; got != 2 {
			t.Errorf("attempt = %d, want 2", got)
		}
		second.Drain(t)
	})
}

// Many other calls come before a background call in the order of owed effects.
func TestADispatchedCallBeyondTheCapIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		later := jetstream.Offer{Worker: "w2", Queue: "q", Tools: []tool.Spec{{Name: "later", Effects: content.ReadOnly, Route: content.Background}}}
		if err := w.Cell.Catalog().Advertise(w.Ctx, later); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w.worker(func(x task.Task) tool.Result {
				if x.Tool == "later" {
					<-time.After(20 * time.Second)
				}
				return echoed(x)
			})
		}
		var mu sync.Mutex
		published := make(map[content.Place]int)
		n := w.flakyNode("n1", func(ctx context.Context, x task.Task, next task.Dispatcher) error {
			mu.Lock()
			published[x.Place]++
			mu.Unlock()
			return next.Dispatch(ctx, x)
		})
		calls := strings.TrimSuffix(strings.Repeat("{name: echo, input: {}}, ", 39), ", ")
		script := fmt.Sprintf("replies:\n  - calls: [{name: later, input: {}}]\n  - calls: [%s]\n  - text: ok\n    repeat: true\n", calls)
		s := w.startWith("s", script, func(c *events.Config) { c.MaxParallel = 50 })
		w.submit(s, "go")
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(published) != 40 {
			t.Errorf("%d calls were published, want all 40", len(published))
		}
		for place, times := range published {
			if times != 1 {
				t.Errorf("%s was published %d times", place, times)
			}
		}
		w.Records("s")
		n.Drain(t)
	})
}

// The tool asked for an approval, and its worker is slow to take the task off the queue, or dead.
// Once approved, the call continues at once, under the same attempt.
func TestAnApprovedCallIsDispatchedBeforeItsOldTaskIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "echo"}}}
		if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
			t.Fatal(err)
		}
		q, err := w.Open(w.Connect()).Queue(w.Ctx, "q")
		if err != nil {
			t.Fatal(err)
		}
		n := w.node("n1")
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		var claims []task.Claim
		for _, want := range [][]content.QuestionKey{nil, {{Kind: "first"}}, {{Kind: "first"}, {Kind: "second"}}} {
			within, cancel := context.WithTimeout(w.Ctx, time.Second)
			defer cancel()
			c, err := q.Claim(within)
			if err != nil {
				t.Fatalf("the call with %v: %v", want, err)
			}
			x := c.Task()
			if x.Attempt != 1 || !slices.Equal(x.Approved, want) || c.Delivery() != 1 {
				t.Fatalf("attempt %d with %v, delivery %d, want the first with %v", x.Attempt, x.Approved, c.Delivery(), want)
			}
			claims = append(claims, c)
			if len(claims) == 3 {
				break
			}
			kind := []string{"first", "second"}[len(want)]
			question := task.Report{
				Session: "s", Call: x.Call, Place: x.Place, Attempt: 1, Queue: "q", Question: &tool.Verdict{RequestKind: kind, Summary: kind},
			}
			if err := c.Report(w.Ctx, question); err != nil {
				t.Fatal(err)
			}
			w.Until("s", events.KindApprovalRequired)
			synctest.Wait()
			w.send("s", "approve-"+kind, commands.ResolveApproval{Call: x.Call, Approve: true})
		}
		for _, c := range claims[:2] {
			_ = c.Done(w.Ctx) // there may be nothing to remove
		}
		last := claims[2]
		if err := last.Report(w.Ctx, task.Report{
			Session: "s", Call: last.Task().Call, Place: last.Task().Place, Attempt: 1, Queue: "q", Outcome: echoed(last.Task()),
		}); err != nil {
			t.Fatal(err)
		}
		if err := last.Done(w.Ctx); err != nil {
			t.Errorf("Done = %v: an earlier holder took the task off the queue", err)
		}
		w.Until("s", events.KindTurnFinished)
		synctest.Wait() // or Next could still see an approval of the past
		w.finish(s)
		w.Records("s")
		n.Drain(t)
	})
}

// The call's timeout is shorter than its lease, so the queue reports the lost worker long after
// the deadline.
func TestACallWithADeadWorkerIsLostAndDoesNotTimeOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "echo", Timeout: 5 * time.Second}}}
		if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
			t.Fatal(err)
		}
		q, err := w.Open(w.Connect()).Queue(w.Ctx, "q")
		if err != nil {
			t.Fatal(err)
		}
		n := w.node("n1")
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		if _, err := q.Claim(w.Ctx); err != nil { // by the worker that dies
			t.Fatal(err)
		}
		c, err := q.Claim(w.Ctx)
		if err != nil || c.Delivery() != 2 {
			t.Fatalf("the next worker: %v", err)
		}
		x := c.Task()
		lost := task.Report{Session: "s", Call: x.Call, Place: x.Place, Attempt: 1, Queue: "q", Lost: true, Reason: "gone"}
		if err := c.Report(w.Ctx, lost); err != nil {
			t.Fatal(err)
		}
		if err := c.Done(w.Ctx); err != nil {
			t.Fatal(err)
		}
		w.finish(s)
		for _, r := range turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s") {
			if r.Result.Status != content.StatusUnknown {
				t.Errorf("result = %s %q, want an unknown outcome", r.Result.Status, r.Result.Text())
			}
		}
		n.Drain(t)
	})
}

func TestACallWithoutAWorkerTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "echo", Timeout: 5 * time.Second}}}
		if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
			t.Fatal(err)
		}
		n := w.node("n1")
		s := w.Start("s", oneCall)
		began := time.Now()
		w.submit(s, "go")
		w.Until("s", events.KindToolResultReceived)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the call timed out after %v", took)
		}
		w.finish(s)
		w.Records("s")
		n.Drain(t)
	})
}

// Calls wait while the stream of tasks is full, and none is lost or runs twice.
func TestCallsWaitForRoomInAFullStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reset("TURNLOG_TASKS", func(cfg map[string]any) { cfg["max_msgs"] = 1 })
		var ran []string
		w.workerOf(tool.Spec{Name: "echo"}, func(x task.Task) tool.Result { // it must not run twice
			ran = append(ran, string(x.Place))
			<-time.After(5 * time.Second)
			return echoed(x)
		})
		n := w.node("n1")
		call := "{name: echo, input: {text: hi}}"
		s := w.Start("s", "replies:\n  - calls: ["+call+", "+call+", "+call+"]\n  - text: done\n")
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != "done" {
			t.Errorf("answer = %q", got.Text())
		}
		for _, r := range turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s") {
			if r.Result.Status != content.StatusOK {
				t.Errorf("a call ended as %s: %s", r.Result.Status, r.Result.Text())
			}
		}
		if slices.Sort(ran); !slices.Equal(ran, []string{"t1-r1-c1", "t1-r1-c2", "t1-r1-c3"}) {
			t.Errorf("ran: %v", ran)
		}
		n.Drain(t)
	})
}

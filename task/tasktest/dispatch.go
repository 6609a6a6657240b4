package tasktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/task"
)

func arrives(t *testing.T, e Env) {
	want := newTask("s1", "t1-r1-c1")
	want.Wake = true
	q := e.Queue(t, "tools")
	if q.Name() != "tools" {
		t.Errorf("Name = %q, want tools", q.Name())
	}
	dispatch(t, e, want)
	c := claim(t, q)
	wantTask(t, c, want, 1)
	if c.Lease() <= 0 {
		t.Errorf("Lease = %v, want some time", c.Lease())
	}
	select {
	case <-c.Cancelled():
		t.Errorf("a fresh claim is cancelled: %q", c.CancelReason())
	default:
	}
	must(t, c.Done(t.Context()))
}

func inOrder(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	places := []content.Place{"t1-r1-c1", "t1-r1-c2", "t1-r1-c3", "t1-r2-c1"}
	for _, p := range places {
		dispatch(t, e, newTask("s1", p))
	}
	for _, p := range places {
		c := claim(t, q)
		wantTask(t, c, newTask("s1", p), 1)
		must(t, c.Done(t.Context()))
	}
}

func differentTasks(t *testing.T, e Env) {
	queues := []task.Queue{e.Queue(t, "tools"), e.Queue(t, "tools")}
	const n = 8
	for i := range n {
		dispatch(t, e, newTask("s1", content.PlaceOf(1, 1, i+1)))
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = make(map[content.Place]int)
	)
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := queues[i%len(queues)].Claim(ctx)
			if err != nil {
				t.Errorf("Claim = %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[c.Task().Place]++
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d claimers got %d different tasks: %v", n, len(seen), seen)
	}
}

func waitingClaim(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	claimed := make(chan task.Claim)
	go func() {
		c, err := q.Claim(t.Context())
		if err != nil {
			t.Errorf("Claim = %v", err)
		}
		claimed <- c
	}()
	<-time.After(10 * time.Minute) // of the bubble's time: the claim outlives any request behind it
	want := newTask("s1", "t1-r1-c1")
	dispatch(t, e, want)
	start := time.Now()
	c := <-claimed
	wantTask(t, c, want, 1)
	if waited := time.Since(start); waited > 100*time.Millisecond {
		t.Errorf("a waiting claim got its task after %v", waited)
	}
}

func separate(t *testing.T, e Env) {
	tools, other := e.Queue(t, "tools"), e.Queue(t, "other")
	mine, theirs := newTask("s1", "t1-r1-c1"), newTask("s1", "t1-r1-c1")
	theirs.Queue = "other"
	dispatch(t, e, theirs)
	claimNothing(t, tools, time.Minute)
	dispatch(t, e, mine) // the same place, but on another queue
	wantTask(t, claim(t, other), theirs, 1)
	wantTask(t, claim(t, tools), mine, 1)
}

func refusedWhileQueued(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	refused := func(when string) {
		t.Helper()
		if err := e.Dispatcher.Dispatch(t.Context(), x); !errors.Is(err, task.ErrQueued) {
			t.Fatalf("Dispatch of a task that is %s = %v, want ErrQueued", when, err)
		}
	}
	dispatch(t, e, x)
	refused("waiting")
	c := claim(t, q)
	refused("running")
	dispatch(t, e, newTask("s2", x.Place), newTask("s1", "t1-r1-c2")) // others are not affected
	must(t, c.Done(t.Context()))
	dispatch(t, e, x) // a new dispatch of a finished one is the driver's to avoid
}

func laterAttempt(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	first := newTask("s1", "t1-r1-c1")
	second := first
	second.Attempt = 2
	dispatch(t, e, first)
	holder := claim(t, q)
	wantTask(t, holder, first, 1)
	dispatch(t, e, second) // while whoever reported the loss of the first has not taken it off yet
	wantTask(t, claim(t, q), second, 1)
	if err := e.Dispatcher.Dispatch(t.Context(), first); !errors.Is(err, task.ErrQueued) {
		t.Errorf("Dispatch of an attempt that is over = %v, want ErrQueued", err)
	}
	if err := holder.Done(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
		t.Errorf("Done of a replaced task = %v, want nil or ErrGone", err)
	}
	wantQueued(t, e, second, true)
}

// earlierAttempt covers a driver that takes over while the task of an attempt whose
// loss is on record is still there: its reporter is slow to take it off, or dead.
func earlierAttempt(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	first := newTask("s1", "t1-r1-c1")
	second := first
	second.Attempt = 2
	dispatch(t, e, first)
	wantQueued(t, e, second, false)
	holder := claim(t, q)
	wantQueued(t, e, first, true)
	wantQueued(t, e, second, false)
	dispatch(t, e, second)
	wantQueued(t, e, first, true) // a driver that is behind does not publish it again
	wantQueued(t, e, second, true)
	if err := holder.Extend(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
		t.Errorf("Extend of a replaced task = %v, want nil or ErrGone", err)
	}
	wantTask(t, claim(t, e.Queue(t, "tools")), second, 1)
}

// approvedCall covers a call that asked for an approval in the middle: approved, it
// is dispatched under the same attempt, perhaps before its worker has taken the task
// that asked off the queue, and that worker's late word must not take the new one.
func approvedCall(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	asking := newTask("s1", "t1-r1-c1")
	approved := asking
	approved.Approved = append(slices.Clone(asking.Approved), content.GateKey{Kind: "filesystem.write"})
	dispatch(t, e, asking)
	holder := claim(t, q)
	wantQueued(t, e, approved, false)
	dispatch(t, e, approved)
	wantQueued(t, e, approved, true)
	if err := holder.Done(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
		t.Errorf("Done of a replaced task = %v, want nil or ErrGone", err)
	}
	wantQueued(t, e, approved, true)
	c := claim(t, q)
	wantTask(t, c, approved, 1)
	must(t, c.Done(t.Context()))
	wantQueued(t, e, approved, false)
}

func ordered(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := func(attempt, approvals int) task.Task {
		y := newTask("s1", "t1-r1-c1")
		y.Attempt, y.Approved = attempt, slices.Repeat([]content.GateKey{{Kind: "echo"}}, approvals)
		return y
	}
	order := []task.Task{x(1, 0), x(1, 1), x(1, 2), x(2, 0), x(2, 2), x(3, 1)}
	for i, y := range order {
		dispatch(t, e, y)
		for j, z := range order {
			wantQueued(t, e, z, j <= i)
		}
		for _, z := range order[:i+1] {
			if err := e.Dispatcher.Dispatch(t.Context(), z); !errors.Is(err, task.ErrQueued) {
				t.Fatalf("Dispatch of %d/%d behind %d/%d = %v, want ErrQueued", z.Attempt, len(z.Approved), y.Attempt, len(y.Approved), err)
			}
		}
	}
	c := claim(t, q)
	if got := c.Task(); got.Attempt != 3 || len(got.Approved) != 1 {
		t.Errorf("claimed attempt %d with %d approvals, want the last dispatch", got.Attempt, len(got.Approved))
	}
	must(t, c.Done(t.Context()))
	claimNothing(t, q, time.Second)
}

func queuedUntilDone(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	wantQueued(t, e, x, false)
	dispatch(t, e, x)
	wantQueued(t, e, x, true)
	wantQueued(t, e, newTask("s1", "t1-r1-c2"), false)
	wantQueued(t, e, newTask("s2", "t1-r1-c1"), false)
	c := claim(t, q)
	wantQueued(t, e, x, true)
	must(t, c.Done(t.Context()))
	wantQueued(t, e, x, false)
}

func cancelClaimed(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x, y, z := newTask("s1", "t1-r1-c1"), newTask("s1", "t1-r1-c2"), newTask("s2", "t1-r1-c1")
	dispatch(t, e, x, y, z)
	running, sibling, stranger := claim(t, q), claim(t, q), claim(t, q)
	must(t, e.Dispatcher.Cancel(t.Context(), "tools", x.Session, x.Place, "user_cancelled"))
	select {
	case <-running.Cancelled():
	case <-time.After(time.Second):
		t.Fatal("the claim was not told within a second")
	}
	if got := running.CancelReason(); got != "user_cancelled" {
		t.Errorf("CancelReason = %q, want user_cancelled", got)
	}
	for _, c := range []task.Claim{sibling, stranger} {
		select {
		case <-c.Cancelled():
			t.Errorf("the cancel reached %s/%s too", c.Task().Session, c.Task().Place)
		default:
		}
		if got := c.CancelReason(); got != "" {
			t.Errorf("CancelReason of %s/%s = %q, want none", c.Task().Session, c.Task().Place, got)
		}
	}
	wantQueued(t, e, x, true) // until its holder is done
	must(t, running.Done(t.Context()))
	wantQueued(t, e, x, false)
}

func cancelWaiting(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x, y := newTask("s1", "t1-r1-c1"), newTask("s1", "t1-r1-c2")
	dispatch(t, e, x, y)
	must(t, e.Dispatcher.Cancel(t.Context(), "tools", x.Session, x.Place, "user_cancelled"))
	wantQueued(t, e, x, false)
	wantTask(t, claim(t, q), y, 1)
	claimNothing(t, q, time.Second)
}

func cancelNothing(t *testing.T, e Env) {
	must(t, e.Dispatcher.Cancel(t.Context(), "tools", "s1", "t1-r1-c1", "user_cancelled"))
}

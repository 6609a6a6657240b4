package tasktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

func arrives(t *testing.T, b *bench) {
	want := b.task("s1", "t1-r1-c1")
	want.Wake = true
	q := b.queue(t)
	if q.Name() != want.Queue {
		t.Errorf("Name = %q, want %s", q.Name(), want.Queue)
	}
	dispatch(t, b, want)
	c := claim(t, q)
	wantTask(t, c, want, 1)
	if c.Lease() <= 0 {
		t.Errorf("Lease = %v, want some time", c.Lease())
	}
	select {
	case reason := <-Canceled(c):
		t.Errorf("a fresh claim is cancelled: %q", reason)
	default:
	}
	must(t, c.Done(t.Context()))
}

func inOrder(t *testing.T, b *bench) {
	q := b.queue(t)
	places := []content.Place{"t1-r1-c1", "t1-r1-c2", "t1-r1-c3", "t1-r2-c1"}
	for _, p := range places {
		dispatch(t, b, b.task("s1", p))
	}
	for _, p := range places {
		c := claim(t, q)
		wantTask(t, c, b.task("s1", p), 1)
		must(t, c.Done(t.Context()))
	}
}

func differentTasks(t *testing.T, b *bench) {
	queues := []task.Queue{b.queue(t), b.queue(t)}
	const n = 8
	for i := range n {
		dispatch(t, b, b.task("s1", content.PlaceOf(1, 1, i+1)))
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

func waitingClaim(t *testing.T, b *bench) {
	q := b.queue(t)
	claimed := make(chan task.Claim)
	go func() {
		c, err := q.Claim(t.Context())
		if err != nil {
			t.Errorf("Claim = %v", err)
		}
		claimed <- c
	}()
	<-time.After(b.pass(10*time.Minute, longerThanARequest))
	want := b.task("s1", "t1-r1-c1")
	dispatch(t, b, want)
	start := time.Now()
	c := <-claimed
	wantTask(t, c, want, 1)
	if waited := time.Since(start); waited > b.prompt(100*time.Millisecond) {
		t.Errorf("a waiting claim got its task after %v", waited)
	}
}

func separate(t *testing.T, b *bench) {
	tools, other := b.queue(t), b.otherQueue(t)
	mine, theirs := b.task("s1", "t1-r1-c1"), b.task("s1", "t1-r1-c1")
	theirs.Queue = other.Name()
	dispatch(t, b, theirs)
	claimNothing(t, tools, b.pass(time.Minute, aMoment))
	dispatch(t, b, mine) // the same place, but on another queue
	wantTask(t, claim(t, other), theirs, 1)
	wantTask(t, claim(t, tools), mine, 1)
}

func refusedWhileQueued(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	refused := func(when string) {
		t.Helper()
		if err := b.Dispatcher.Dispatch(t.Context(), x); !errors.Is(err, task.ErrQueued) {
			t.Fatalf("Dispatch of a task that is %s = %v, want ErrQueued", when, err)
		}
	}
	dispatch(t, b, x)
	refused("waiting")
	c := claim(t, q)
	refused("running")
	dispatch(t, b, b.task("s2", x.Place), b.task("s1", "t1-r1-c2")) // other calls are not affected
	must(t, c.Done(t.Context()))
	wantOff(t, b, x)
	dispatch(t, b, x) // drivers do not dispatch a finished call again
}

func laterAttempt(t *testing.T, b *bench) {
	q := b.queue(t)
	first := b.task("s1", "t1-r1-c1")
	second := first
	second.Attempt = 2
	dispatch(t, b, first)
	holder := claim(t, q)
	wantTask(t, holder, first, 1)
	dispatch(t, b, second) // while the reporter of the loss has not removed the first yet
	wantTask(t, claim(t, q), second, 1)
	if err := b.Dispatcher.Dispatch(t.Context(), first); !errors.Is(err, task.ErrQueued) {
		t.Errorf("Dispatch of an attempt that is over = %v, want ErrQueued", err)
	}
	if err := holder.Done(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
		t.Errorf("Done of a replaced task = %v, want nil or ErrGone", err)
	}
	wantQueued(t, b, second, true)
}

// earlierAttempt covers a driver that takes over while the task of a lost attempt is still
// queued, because its reporter is slow or dead.
func earlierAttempt(t *testing.T, b *bench) {
	q := b.queue(t)
	first := b.task("s1", "t1-r1-c1")
	second := first
	second.Attempt = 2
	dispatch(t, b, first)
	wantQueued(t, b, second, false)
	holder := claim(t, q)
	wantQueued(t, b, first, true)
	wantQueued(t, b, second, false)
	dispatch(t, b, second)
	wantQueued(t, b, first, true) // a driver that lags does not publish it again
	wantQueued(t, b, second, true)
	if err := holder.Extend(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
		t.Errorf("Extend of a replaced task = %v, want nil or ErrGone", err)
	}
	wantTask(t, claim(t, b.queue(t)), second, 1)
}

// approvedCall covers a call that asked for approval while it ran. It is dispatched again with
// the same attempt, perhaps before its worker has removed the first task, and that worker's
// late removal must not remove the new task.
func approvedCall(t *testing.T, b *bench) {
	q := b.queue(t)
	asking := b.task("s1", "t1-r1-c1")
	approved := asking
	approved.Approved = append(slices.Clone(asking.Approved), content.QuestionKey{Kind: "filesystem.write"})
	dispatch(t, b, asking)
	holder := claim(t, q)
	wantQueued(t, b, approved, false)
	dispatch(t, b, approved)
	wantQueued(t, b, approved, true)
	if err := holder.Done(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
		t.Errorf("Done of a replaced task = %v, want nil or ErrGone", err)
	}
	wantQueued(t, b, approved, true)
	c := claim(t, q)
	wantTask(t, c, approved, 1)
	must(t, c.Done(t.Context()))
	wantOff(t, b, approved)
}

func ordered(t *testing.T, b *bench) {
	q := b.queue(t)
	x := func(attempt, approvals int) task.Task {
		y := b.task("s1", "t1-r1-c1")
		y.Attempt, y.Approved = attempt, slices.Repeat([]content.QuestionKey{{Kind: "echo"}}, approvals)
		return y
	}
	order := []task.Task{x(1, 0), x(1, 1), x(1, 2), x(2, 0), x(2, 2), x(3, 1)}
	for i, y := range order {
		dispatch(t, b, y)
		for j, z := range order {
			wantQueued(t, b, z, j <= i)
		}
		for _, z := range order[:i+1] {
			if err := b.Dispatcher.Dispatch(t.Context(), z); !errors.Is(err, task.ErrQueued) {
				t.Fatalf("Dispatch of %d/%d after %d/%d = %v, want ErrQueued", z.Attempt, len(z.Approved), y.Attempt, len(y.Approved), err)
			}
		}
	}
	last := order[len(order)-1]
	c := b.next(t, q, func(c task.Claim) bool { return last.Supersedes(c.Task()) })
	if got := c.Task(); got.Attempt != 3 || len(got.Approved) != 1 {
		t.Errorf("claimed attempt %d with %d approvals, want the last dispatch", got.Attempt, len(got.Approved))
	}
	must(t, c.Done(t.Context()))
	claimNothing(t, q, b.pass(time.Second, aMoment))
}

func queuedUntilDone(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	wantQueued(t, b, x, false)
	dispatch(t, b, x)
	wantQueued(t, b, x, true)
	wantQueued(t, b, b.task("s1", "t1-r1-c2"), false)
	wantQueued(t, b, b.task("s2", "t1-r1-c1"), false)
	c := claim(t, q)
	wantQueued(t, b, x, true)
	must(t, c.Done(t.Context()))
	wantOff(t, b, x)
}

func cancelClaimed(t *testing.T, b *bench) {
	q := b.queue(t)
	x, y, z := b.task("s1", "t1-r1-c1"), b.task("s1", "t1-r1-c2"), b.task("s2", "t1-r1-c1")
	dispatch(t, b, x, y, z)
	running, sibling, stranger := claim(t, q), claim(t, q), claim(t, q)
	if got := b.cancel(t, x, running); got != "user_cancelled" {
		t.Errorf("canceled for %q, want user_cancelled", got)
	}
	for _, c := range []task.Claim{sibling, stranger} {
		select {
		case reason := <-Canceled(c):
			t.Errorf("the cancel reached %s/%s too: %s", c.Task().Session, c.Task().Place, reason)
		default:
		}
	}
	if queued, err := b.Dispatcher.Queued(t.Context(), x); b.live() && err == nil && !queued { // see jetstream's Tasks.Cancel
		b.void = true
		return
	}
	wantQueued(t, b, x, true) // until its holder is done
	must(t, running.Done(t.Context()))
	wantOff(t, b, x)
}

func cancelWaiting(t *testing.T, b *bench) {
	q := b.queue(t)
	x, y := b.task("s1", "t1-r1-c1"), b.task("s1", "t1-r1-c2")
	dispatch(t, b, x, y)
	must(t, b.Dispatcher.Cancel(t.Context(), x.Queue, x.Session, x.Place, "user_cancelled"))
	wantOff(t, b, x)
	wantTask(t, b.next(t, q, func(c task.Claim) bool {
		return c.Task().Place == x.Place && b.canceled(c)
	}), y, 1)
	claimNothing(t, q, b.pass(time.Second, aMoment))
}

func cancelNothing(t *testing.T, b *bench) {
	x := b.task("s1", "t1-r1-c1")
	must(t, b.Dispatcher.Cancel(t.Context(), x.Queue, x.Session, x.Place, "user_cancelled"))
}

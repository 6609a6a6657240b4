package tasktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func claimEnds(t *testing.T, b *bench) {
	q := b.queue(t)
	why := errors.New("drained")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := q.Claim(ctx)
		ended <- err
	}()
	<-time.After(b.pass(time.Minute, aMoment))
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("Claim = %v, want the cause of its context's end", err)
	}
	dispatch(t, b, b.task("s1", "t1-r1-c1"))
	if _, err := q.Claim(ctx); !errors.Is(err, why) {
		t.Errorf("Claim with a context that is over = %v, want its cause", err)
	}
}

// claimerLeft covers a worker that drains: its last request must not look like a task that was
// started and lost.
func claimerLeft(t *testing.T, b *bench) {
	leaving, staying := b.queue(t), b.queue(t)
	for range 3 {
		claimNothing(t, leaving, b.pass(time.Second, aMoment))
	}
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	start := time.Now()
	wantTask(t, claim(t, staying), x, 1)
	if waited := time.Since(start); waited > b.prompt(time.Second) {
		t.Errorf("the task reached the other worker after %v, want at once", waited)
	}
}

func closedClaims(t *testing.T, b *bench) {
	q := b.queue(t)
	ended := make(chan error)
	go func() {
		_, err := q.Claim(t.Context())
		ended <- err
	}()
	<-time.After(b.pass(time.Second, aMoment))
	must(t, q.Close(t.Context()))
	if err := <-ended; !errors.Is(err, task.ErrClosed) {
		t.Errorf("Claim that waits = %v, want ErrClosed", err)
	}
	dispatch(t, b, b.task("s1", "t1-r1-c1"))
	if _, err := q.Claim(t.Context()); !errors.Is(err, task.ErrClosed) {
		t.Errorf("Claim of a closed queue = %v, want ErrClosed", err)
	}
	must(t, q.Close(t.Context()))
	must(t, b.queue(t).Close(t.Context())) // a queue that never claimed
}

// closedLeaves covers a worker that drains in a process that continues: its pending request
// must not receive a task.
func closedLeaves(t *testing.T, b *bench) {
	leaving := b.queue(t)
	for range 3 {
		claimNothing(t, leaving, b.pass(time.Second, aMoment))
	}
	must(t, leaving.Close(t.Context()))
	tasks := []task.Task{b.task("s1", "t1-r1-c1"), b.task("s1", "t1-r1-c2"), b.task("s1", "t1-r1-c3")}
	dispatch(t, b, tasks...)
	staying := b.queue(t)
	start := time.Now()
	for _, x := range tasks {
		c := claim(t, staying)
		if b.live() && (c.Task().Place != x.Place || c.Delivery() > 1) { // the consumer's server learns late who left at another one
			b.void = true
			return
		}
		wantTask(t, c, x, 1)
	}
	if waited := time.Since(start); waited > b.prompt(100*time.Millisecond) {
		t.Errorf("the tasks reached the other worker after %v, want at once", waited)
	}
}

func closedHeld(t *testing.T, b *bench) {
	q := b.queue(t)
	x, y := b.task("s1", "t1-r1-c1"), b.task("s1", "t1-r1-c2")
	dispatch(t, b, x, y)
	running, cancelled := hold(claim(t, q)), hold(claim(t, q))
	must(t, q.Close(t.Context()))
	for range extensions {
		<-time.After(running.Lease() / extensionsALease)
		if !running.extend(t, b) || !cancelled.extend(t, b) {
			return
		}
	}
	b.cancel(t, y, cancelled)
	must(t, running.Report(t.Context(), reportOf(x)))
	wantReports(t, b, x.Session, reportOf(x))
	if !running.mustHold(t, b, running.Done(t.Context())) || !cancelled.mustHold(t, b, cancelled.Release(t.Context())) {
		return
	}
	wantOff(t, b, x)
}

// reportOf returns a report that x ran.
func reportOf(x task.Task) task.Report {
	return task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
		Outcome: tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, "hello"), Duration: time.Second},
	}
}

func lapses(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	start := time.Now()
	lostClaim := claim(t, q)
	again := claim(t, b.queue(t))
	wantTask(t, again, x, 2)
	if waited, lease := time.Since(start), lostClaim.Lease(); waited < lease*9/10 || waited > 2*lease+b.prompt(0) {
		t.Errorf("the task was redelivered after %v, want its lease of %v", waited, lease)
	}
	wantTask(t, claim(t, q), x, 3)
}

func extended(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	c := hold(claim(t, q))
	for range extensions {
		if c.lapsed(t, b, q, c.Lease()/extensionsALease) || !c.extend(t, b) {
			return
		}
	}
	if !c.mustHold(t, b, c.Done(t.Context())) {
		return
	}
	claimNothing(t, q, b.pass(2*c.Lease(), c.Lease()))
}

func gone(t *testing.T, b *bench) {
	q := b.queue(t)
	dispatch(t, b, b.task("s1", "t1-r1-c1"))
	first := claim(t, q)
	second := hold(claim(t, q))
	<-time.After(b.pass(0, second.Lease()/2)) // a holder may count from when it received the task, a little late
	for what, do := range map[string]func(context.Context) error{
		"Extend": first.Extend, "Release": first.Release, "Done": first.Done,
	} {
		if err := do(t.Context()); !errors.Is(err, task.ErrGone) {
			t.Errorf("%s of a claim that lapsed = %v, want ErrGone", what, err)
		}
	}
	if second.lapsed(t, b, q, b.pass(time.Second, aMoment)) {
		return
	}
	wantQueued(t, b, first.Task(), true)
	if second.extend(t, b) {
		second.mustHold(t, b, second.Done(t.Context()))
	}
}

func released(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	c := claim(t, q)
	start := time.Now()
	must(t, c.Release(t.Context()))
	again := claim(t, b.queue(t))
	wantTask(t, again, x, 2)
	if waited := time.Since(start); waited > b.prompt(time.Second) {
		t.Errorf("a released task was redelivered after %v, want at once", waited)
	}
	must(t, again.Done(t.Context()))
}

// begins covers a queue that lost what it knew: it has a task again whose call has begun.
func begins(t *testing.T, b *bench) {
	q := b.queue(t)
	x, harmless := b.task("s1", "t1-r1-c1"), b.task("s1", "t1-r1-c2")
	x.Effects = content.Once
	again := func(x task.Task) task.Claim {
		dispatch(t, b, x)
		c := claim(t, q)
		wantTask(t, c, x, 1)
		return c
	}
	for range 2 {
		c := again(harmless)
		must(t, c.Begin(t.Context()))
		must(t, c.Done(t.Context()))
		wantOff(t, b, harmless)
	}
	c := again(x)
	must(t, c.Unbegin(t.Context())) // it did not begin
	for range 2 {
		must(t, c.Begin(t.Context()))
		must(t, c.Begin(t.Context())) // the answer was lost
		must(t, c.Unbegin(t.Context()))
	}
	must(t, c.Done(t.Context()))
	wantOff(t, b, x)

	c = again(x) // the question was lost
	must(t, c.Begin(t.Context()))
	must(t, c.Done(t.Context()))
	wantOff(t, b, x)
	c = again(x)
	if err := c.Begin(t.Context()); !errors.Is(err, task.ErrBegun) {
		t.Errorf("Begin of a call that began = %v, want ErrBegun", err)
	}
	must(t, c.Unbegin(t.Context())) // that of the other claim stays
	if err := c.Begin(t.Context()); !errors.Is(err, task.ErrBegun) {
		t.Errorf("Begin of a call that began = %v, want ErrBegun", err)
	}
	must(t, c.Done(t.Context()))
	wantOff(t, b, x)
	x.Attempt++
	c = again(x)
	must(t, c.Begin(t.Context()))
	must(t, c.Done(t.Context()))
}

func reports(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	c := claim(t, q)
	want := reportOf(x)
	must(t, c.Report(t.Context(), want))
	wantReports(t, b, x.Session, want)
	wantQueued(t, b, x, true) // a crash between the two repeats the report
	must(t, c.Report(t.Context(), want))
	wantReports(t, b, x.Session, want, want)
	must(t, c.Done(t.Context()))
	wantReports(t, b, b.session("s2"))
}

func lost(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	claim(t, q)
	c := hold(claim(t, q))
	want := task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
		Lost: true, Reason: "worker lost",
	}
	must(t, c.Report(t.Context(), want))
	c.mustHold(t, b, c.Done(t.Context()))
	wantReports(t, b, x.Session, want)
}

// asked: a question means that nothing ran, so the task may be gone when the question is
// reported.
func asked(t *testing.T, b *bench) {
	q := b.queue(t)
	x := b.task("s1", "t1-r1-c1")
	dispatch(t, b, x)
	c := claim(t, q)
	want := task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
		Question: &tool.Verdict{
			RequestKind: "filesystem.write", Reason: content.SensitivePath, Summary: "write /etc/hosts",
			Metadata: content.Metadata{}.With("path", "/etc/hosts"), TTL: time.Hour,
		},
	}
	must(t, c.Done(t.Context()))
	wantOff(t, b, x)
	must(t, c.Report(t.Context(), want))
	want.Queue = ""
	wantReports(t, b, x.Session, want)
}

// wantReports compares the reports that arrived, without the optional fields.
func wantReports(t *testing.T, b *bench, s content.SessionID, want ...task.Report) {
	t.Helper()
	got := b.Reports(t, s)
	if len(got) != len(want) {
		t.Fatalf("%d reports for %s, want %d: %+v", len(got), s, len(want), got)
	}
	for i := range want {
		got[i].Wake, got[i].Call = want[i].Wake, want[i].Call
		if g := got[i].Question; g != nil {
			g.Ruling, got[i].Queue = tool.NoOpinion, "" // a question is about the call, on any queue
		}
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("report %d for %s (-want +got):\n%s", i, s, diff)
		}
	}
}

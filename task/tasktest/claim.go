package tasktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/task"
	"github.com/turnlog/turnlog/tool"
)

func claimEnds(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	why := errors.New("drained")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := q.Claim(ctx)
		ended <- err
	}()
	<-time.After(time.Minute)
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("Claim = %v, want the cause of its context's end", err)
	}
	dispatch(t, e, newTask("s1", "t1-r1-c1"))
	if _, err := q.Claim(ctx); !errors.Is(err, why) {
		t.Errorf("Claim with a context that is over = %v, want its cause", err)
	}
}

// claimerLeft covers a worker that is drained: what its last wait left behind
// must not look like a task that somebody began and lost.
func claimerLeft(t *testing.T, e Env) {
	leaving, staying := e.Queue(t, "tools"), e.Queue(t, "tools")
	for range 3 {
		claimNothing(t, leaving, time.Second)
	}
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	start := time.Now()
	wantTask(t, claim(t, staying), x, 1)
	if waited := time.Since(start); waited > time.Second {
		t.Errorf("the task came to the other worker after %v, want at once", waited)
	}
}

func closedClaims(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	ended := make(chan error)
	go func() {
		_, err := q.Claim(t.Context())
		ended <- err
	}()
	<-time.After(time.Second)
	must(t, q.Close(t.Context()))
	if err := <-ended; !errors.Is(err, task.ErrClosed) {
		t.Errorf("Claim that waits = %v, want ErrClosed", err)
	}
	dispatch(t, e, newTask("s1", "t1-r1-c1"))
	if _, err := q.Claim(t.Context()); !errors.Is(err, task.ErrClosed) {
		t.Errorf("Claim of a closed queue = %v, want ErrClosed", err)
	}
	must(t, q.Close(t.Context()))
	must(t, e.Queue(t, "tools").Close(t.Context())) // one that never claimed
}

// closedLeaves covers a worker that drains in a process that goes on: what it had
// asked for must not come to it any more.
func closedLeaves(t *testing.T, e Env) {
	leaving := e.Queue(t, "tools")
	for range 3 {
		claimNothing(t, leaving, time.Second)
	}
	must(t, leaving.Close(t.Context()))
	tasks := []task.Task{newTask("s1", "t1-r1-c1"), newTask("s1", "t1-r1-c2"), newTask("s1", "t1-r1-c3")}
	dispatch(t, e, tasks...)
	staying := e.Queue(t, "tools")
	start := time.Now()
	for _, x := range tasks {
		wantTask(t, claim(t, staying), x, 1)
	}
	if waited := time.Since(start); waited > 100*time.Millisecond {
		t.Errorf("the tasks came to the other worker after %v, want at once", waited)
	}
}

func closedHeld(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x, y := newTask("s1", "t1-r1-c1"), newTask("s1", "t1-r1-c2")
	dispatch(t, e, x, y)
	running, cancelled := claim(t, q), claim(t, q)
	must(t, q.Close(t.Context()))
	for range 3 {
		<-time.After(running.Lease() / 2)
		must(t, running.Extend(t.Context()))
		must(t, cancelled.Extend(t.Context()))
	}
	must(t, e.Dispatcher.Cancel(t.Context(), "tools", y.Session, y.Place, "user_cancelled"))
	select {
	case <-cancelled.Cancelled():
	case <-time.After(time.Second):
		t.Error("a cancel did not reach a claim that was held when the queue was closed")
	}
	must(t, running.Report(t.Context(), reportOf(x)))
	wantReports(t, e, x.Session, reportOf(x))
	must(t, running.Done(t.Context()))
	must(t, cancelled.Release(t.Context()))
	wantQueued(t, e, x, false)
}

// reportOf is a report that x ran.
func reportOf(x task.Task) task.Report {
	return task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
		Outcome: tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, "hello"), Duration: time.Second},
	}
}

func lapses(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	lostClaim := claim(t, q)
	start := time.Now()
	again := claim(t, e.Queue(t, "tools"))
	wantTask(t, again, x, 2)
	if waited, lease := time.Since(start), lostClaim.Lease(); waited < lease*9/10 || waited > 2*lease {
		t.Errorf("the task came back after %v, want its lease of %v", waited, lease)
	}
	wantTask(t, claim(t, q), x, 3)
}

func extended(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	c := claim(t, q)
	for range 6 {
		claimNothing(t, q, c.Lease()/2)
		must(t, c.Extend(t.Context()))
	}
	must(t, c.Done(t.Context()))
	claimNothing(t, q, 2*c.Lease())
}

func gone(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	dispatch(t, e, newTask("s1", "t1-r1-c1"))
	first := claim(t, q)
	second := claim(t, q)
	for what, do := range map[string]func(context.Context) error{
		"Extend": first.Extend, "Release": first.Release, "Done": first.Done,
	} {
		if err := do(t.Context()); !errors.Is(err, task.ErrGone) {
			t.Errorf("%s of a claim that lapsed = %v, want ErrGone", what, err)
		}
	}
	wantQueued(t, e, first.Task(), true)
	must(t, second.Extend(t.Context()))
	must(t, second.Done(t.Context()))
}

func released(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	c := claim(t, q)
	start := time.Now()
	must(t, c.Release(t.Context()))
	again := claim(t, e.Queue(t, "tools"))
	wantTask(t, again, x, 2)
	if waited := time.Since(start); waited > time.Second {
		t.Errorf("a released task came back after %v, want at once", waited)
	}
	must(t, again.Done(t.Context()))
}

func reports(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	c := claim(t, q)
	want := reportOf(x)
	must(t, c.Report(t.Context(), want))
	wantReports(t, e, x.Session, want)
	wantQueued(t, e, x, true) // a crash between the two repeats the report
	must(t, c.Report(t.Context(), want))
	wantReports(t, e, x.Session, want, want)
	must(t, c.Done(t.Context()))
	wantReports(t, e, "s2")
}

func lost(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	claim(t, q)
	c := claim(t, q)
	want := task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
		Lost: true, Reason: "worker lost",
	}
	must(t, c.Report(t.Context(), want))
	must(t, c.Done(t.Context()))
	wantReports(t, e, x.Session, want)
}

// asked: a question says that nothing was done, so the task may be gone when it is
// told.
func asked(t *testing.T, e Env) {
	q := e.Queue(t, "tools")
	x := newTask("s1", "t1-r1-c1")
	dispatch(t, e, x)
	c := claim(t, q)
	want := task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
		Gate: &tool.Verdict{
			RequestKind: "filesystem.write", Reason: content.SensitivePath, Summary: "write /etc/hosts",
			Metadata: content.Metadata{}.With("path", "/etc/hosts"), TTL: time.Hour,
		},
	}
	must(t, c.Done(t.Context()))
	wantQueued(t, e, x, false)
	must(t, c.Report(t.Context(), want))
	want.Queue = ""
	wantReports(t, e, x.Session, want)
}

// wantReports compares what arrived, but for what a report need not carry.
func wantReports(t *testing.T, e Env, s content.SessionID, want ...task.Report) {
	t.Helper()
	got := e.Reports(t, s)
	if len(got) != len(want) {
		t.Fatalf("%d reports for %s, want %d: %+v", len(got), s, len(want), got)
	}
	for i := range want {
		got[i].Wake, got[i].Call = want[i].Wake, want[i].Call
		if g := got[i].Gate; g != nil {
			g.Ruling, got[i].Queue = tool.NoOpinion, "" // a question is about the call, whichever queue it is on
		}
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("report %d for %s (-want +got):\n%s", i, s, diff)
		}
	}
}

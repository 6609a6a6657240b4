package tasktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

// In real time.
const (
	shortLease = 2 * time.Second // of claims that have to lapse
	longLease  = time.Minute     // of all others: longer than anything takes
	maxTrials  = 10

	aMoment            = 200 * time.Millisecond
	longerThanARequest = 6 * time.Second  // that stands at a server for a claim
	promptEnough       = 20 * time.Second // shorter than a lease that does not lapse
	cancelAgain        = 200 * time.Millisecond
)

// A claim is extended so often for each lease that it would last, and for longer than one.
const (
	extensionsALease = 4
	extensions       = 6
)

// bench is what a test works with: an implementation, names that are its own there, and
// how time passes.
type bench struct {
	Env

	mark     string // of its names; "" in a bubble, where it is alone and time is virtual
	deadline content.Time
	void     bool // the machine was too slow for the test to say anything
}

func newBench(e Env, mark string) *bench {
	return &bench{Env: e, mark: mark, deadline: content.TimeOf(time.Now().Add(time.Hour))}
}

func (b *bench) live() bool { return b.mark != "" }

func (b *bench) name(base string) string {
	if b.live() {
		return base + "-" + b.mark
	}
	return base
}

func (b *bench) session(base string) content.SessionID { return content.SessionID(b.name(base)) }

func (b *bench) queue(t *testing.T) task.Queue { return b.Queue(t, b.name("tools")) }

func (b *bench) otherQueue(t *testing.T) task.Queue { return b.Queue(t, b.name("other")) }

// task returns a task with every field set.
func (b *bench) task(session string, p content.Place) task.Task {
	s := b.session(session)
	return task.Task{
		Session: s, Turn: "turn-1", Call: "call-" + content.CallID(p), Place: p, Attempt: 1,
		Queue: b.name("tools"), Tool: "echo", Input: []byte(`{"text":"hello"}`), Effects: content.Idempotent,
		Approved: []content.GateKey{{Kind: "echo"}}, Deadline: b.deadline,
		IdempotencyKey: string(s) + "/" + string(p), TraceParent: "00-trace-span-01",
	}
}

// pass is how long to wait where nothing is to happen.
func (b *bench) pass(virtual, live time.Duration) time.Duration {
	if b.live() {
		return live
	}
	return virtual
}

// prompt is how long something may take that happens at once.
func (b *bench) prompt(virtual time.Duration) time.Duration {
	if b.live() {
		return promptEnough
	}
	return virtual
}

// cancel tells whoever runs x to stop and waits until that is heard. In real time a
// cancel may come before the way to the worker is known everywhere.
func (b *bench) cancel(t *testing.T, x task.Task, running task.Claim) {
	t.Helper()
	again := time.NewTicker(b.pass(time.Hour, cancelAgain))
	defer again.Stop()
	late := time.After(b.prompt(time.Second))
	for {
		must(t, b.Dispatcher.Cancel(t.Context(), x.Queue, x.Session, x.Place, "user_cancelled"))
		select {
		case <-running.Cancelled():
			return
		case <-again.C:
		case <-late:
			t.Fatalf("whoever runs %s was not told to stop", x.Place)
		}
	}
}

// next claims the next task. In real time a server that is behind may still hand out what
// was taken away a moment ago; stale tells such a claim.
func (b *bench) next(t *testing.T, q task.Queue, stale func(task.Claim) bool) task.Claim {
	t.Helper()
	for {
		c := claim(t, q)
		if !b.live() || !stale(c) {
			return c
		}
		if err := c.Done(t.Context()); err != nil && !errors.Is(err, task.ErrGone) {
			t.Fatal(err)
		}
	}
}

// hears reports whether the claim is told to stop.
func (b *bench) hears(c task.Claim) bool {
	select {
	case <-c.Cancelled():
		return true
	case <-time.After(b.prompt(time.Second)):
		return false
	}
}

// held is a claim that must not lapse.
type held struct {
	task.Claim

	since time.Time // when it was had, or extended
}

func hold(c task.Claim) *held { return &held{c, time.Now()} }

// still fails the test if something went wrong with the claim. It reports false if that
// was because the test came too late.
func (h *held) still(t *testing.T, b *bench, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	if !b.live() || time.Since(h.since) < h.Lease()*3/4 {
		t.Fatal(err)
	}
	b.void = true
	return false
}

// extend renews the claim. It reports false as still does.
func (h *held) extend(t *testing.T, b *bench) bool {
	t.Helper()
	now := time.Now()
	if !h.still(t, b, h.Extend(t.Context())) {
		return false
	}
	h.since = now
	return true
}

// lapsed waits on the queue, where nothing may come. It reports true if the claim may
// have lapsed meanwhile since the test stood still.
func (h *held) lapsed(t *testing.T, b *bench, q task.Queue, wait time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	c, err := q.Claim(ctx)
	if err == nil {
		err = errors.New("a task that is held was handed out: " + string(c.Task().Place))
	} else if ctx.Err() != nil {
		err = nil
	}
	return !h.still(t, b, err)
}

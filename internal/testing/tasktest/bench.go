package tasktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

// Durations in real time.
const (
	shortLease = 2 * time.Second // of claims that have to expire
	longLease  = time.Minute     // of all others: longer than any test
	maxTrials  = 10

	aMoment            = 200 * time.Millisecond
	longerThanARequest = 6 * time.Second  // for a claim that waits at a server
	promptEnough       = 20 * time.Second // shorter than a lease that does not expire
	cancelAgain        = 200 * time.Millisecond
)

// How often a claim is extended per lease, for longer than one lease.
const (
	extensionsALease = 4
	extensions       = 6
)

// bench is the environment of a test: an implementation, unique names, and durations.
type bench struct {
	Env

	mark     string // of its names; "" in a bubble
	deadline content.Time
	void     bool // the machine was too slow, so the test is inconclusive
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
		Approved: []content.QuestionKey{{Kind: "echo"}}, Deadline: b.deadline,
		IdempotencyKey: string(s) + "/" + string(p), TraceParent: "00-trace-span-01",
	}
}

// pass returns how long to wait where nothing should happen.
func (b *bench) pass(virtual, live time.Duration) time.Duration {
	if b.live() {
		return live
	}
	return virtual
}

// prompt returns how long something immediate may take.
func (b *bench) prompt(virtual time.Duration) time.Duration {
	if b.live() {
		return promptEnough
	}
	return virtual
}

// Canceled returns a channel that receives the reason when a claim's call must stop.
func Canceled(c task.Claim) <-chan string {
	reason := make(chan string, 1)
	c.OnCancel(func(r string) { reason <- r })
	return reason
}

// cancel cancels x and returns the reason that its worker receives. In real time a cancel may be sent before
// all servers know the worker's subscription.
func (b *bench) cancel(t *testing.T, x task.Task, running task.Claim) (reason string) {
	t.Helper()
	canceled := Canceled(running)
	again := time.NewTicker(b.pass(time.Hour, cancelAgain))
	defer again.Stop()
	late := time.After(b.prompt(time.Second))
	for {
		must(t, b.Dispatcher.Cancel(t.Context(), x.Queue, x.Session, x.Place, "user_cancelled"))
		select {
		case reason := <-canceled:
			return reason
		case <-again.C:
		case <-late:
			t.Fatalf("the worker of %s did not receive the cancel", x.Place)
		}
	}
}

// next claims the next task. In real time a lagging server may still deliver a task that was just
// removed, which stale recognizes.
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

// canceled reports whether the claim receives a cancel.
func (b *bench) canceled(c task.Claim) bool {
	select {
	case <-Canceled(c):
		return true
	case <-time.After(b.prompt(time.Second)):
		return false
	}
}

// held is a claim that must not expire.
type held struct {
	task.Claim

	since time.Time // when it was received or extended
}

func hold(c task.Claim) *held { return &held{c, time.Now()} }

// mustHold fails the test if the claim was lost. It reports false if the test itself was too slow.
func (h *held) mustHold(t *testing.T, b *bench, err error) bool {
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

// extend extends the claim. It reports false like mustHold.
func (h *held) extend(t *testing.T, b *bench) bool {
	t.Helper()
	now := time.Now()
	if !h.mustHold(t, b, h.Extend(t.Context())) {
		return false
	}
	h.since = now
	return true
}

// lapsed waits on the queue, where no task may arrive. It reports whether the claim may have expired
// because the test stalled.
func (h *held) lapsed(t *testing.T, b *bench, q task.Queue, wait time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	c, err := q.Claim(ctx)
	if err == nil {
		err = errors.New("a held task was claimed again: " + string(c.Task().Place))
	} else if ctx.Err() != nil {
		err = nil
	}
	return !h.mustHold(t, b, err)
}

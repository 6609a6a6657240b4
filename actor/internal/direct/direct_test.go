package direct

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/worker/task"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// deployment is a node, and what the test says to it as a worker or sees of it.
type deployment struct {
	*Node

	t      *testing.T
	worker *nats.Conn
	sent   chan *nats.Msg // calls
}

func inBubble(t *testing.T, test func(*deployment)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := natstest.Start(t)
		cell, err := jetstream.Open(natstest.Connect(t, s), "")
		natstest.Must(t, err)
		d := &deployment{New(cell.Tasks(), "n1"), t, natstest.Connect(t, s), make(chan *nats.Msg, 8)}
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		natstest.Must(t, d.Listen(ctx))
		d.listen("turnlog.call.q.*.*", d.sent)
		test(d)
	})
}

func (d *deployment) listen(subject string, to chan *nats.Msg) {
	d.t.Helper()
	_, err := d.worker.ChanSubscribe(subject, to)
	natstest.Must(d.t, err)
	synctest.Wait() // until the server knows of the subscription
}

func (d *deployment) says(ticket string, held bool) {
	d.t.Helper()
	natstest.Must(d.t, d.worker.PublishMsg(&nats.Msg{Subject: "turnlog.held.n1", Header: nats.Header{
		"Turnlog-Ticket": {ticket}, "Turnlog-Held": {strconv.FormatBool(held)},
	}}))
}

func x(queue, ticket string) task.Task {
	return task.Task{Session: "s", Place: "t1-r1-c1", Attempt: 1, Queue: queue, Tool: "read", Effects: content.ReadOnly, Direct: true, Ticket: ticket}
}

// runs runs a call, and returns how long that took and whether nothing is left to do.
func (d *deployment) runs(x task.Task) (took time.Duration, done bool) {
	began := time.Now()
	done = d.Run(d.t.Context(), x)
	return time.Since(began), done
}

func (d *deployment) wantRun(what string, x task.Task, took time.Duration) {
	d.t.Helper()
	if got, done := d.runs(x); got != took || done {
		d.t.Errorf("%s: Run returned after %v, done: %t; want %v and false", what, got, done, took)
	}
}

// endOfLease is when a node no longer waits for a call that nothing is said about.
const endOfLease = jetstream.DirectLease + askFor

// mayBeSent makes the node learn that it may send calls.
func (d *deployment) mayBeSent() {
	d.t.Helper()
	d.wantRun("the first call", x("q", "first"), 0)
	synctest.Wait()
	if len(d.sent) > 0 {
		d.t.Error("a call was sent before an answer showed that it may be")
	}
}

func TestACallIsSentOnceAnAnswerShowsThatItMayBe(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.mayBeSent()
		d.wantRun("no worker answers", x("q", "t"), endOfLease)
		if len(d.sent) != 1 {
			d.t.Errorf("%d calls were sent", len(d.sent))
		}
		d.wantRun("nothing was said about the last call", x("q", "t"), 0)
		synctest.Wait()
		d.wantRun("no worker is subscribed", x("other", "t"), 0)
	})
}

// A server that denies a subject says nothing there: the test takes what it would refuse.
func TestANodeThatMayNotSendTriesRarely(t *testing.T) {
	inBubble(t, func(d *deployment) {
		const minutes = 10
		probes := make(chan *nats.Msg, minutes*60)
		d.listen("turnlog.call.~.~.~", probes)
		for range cap(probes) {
			d.wantRun("not known to be allowed", x("q", "t"), 0)
			<-time.After(time.Second)
		}
		if n := len(probes); n < minutes || n > 2*minutes || len(d.sent) > 0 {
			d.t.Errorf("%d probes, %d calls", n, len(d.sent))
		}
	})
}

func TestACallLastsWhileItsWorkerRenewsTheLease(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.mayBeSent()
		const renewals = 10
		go func() {
			<-d.sent
			for range renewals {
				<-time.After(jetstream.DirectLease / 2)
				d.says("t", true)
				d.says("another", false)
			}
		}()
		d.wantRun("renewed", x("q", "t"), renewals*jetstream.DirectLease/2+endOfLease)
		go func() {
			<-d.sent
			<-time.After(time.Second)
			d.says("t", false)
		}()
		d.wantRun("given back", x("q", "t"), time.Second)
		ctx, cancel := context.WithTimeout(d.t.Context(), time.Second)
		defer cancel()
		if !d.Run(ctx, x("q", "t")) {
			d.t.Error("something is left to do for a call that has ended")
		}
	})
}

// As if renewals were lost, or the node were stopped meanwhile.
func TestACallIsNotGivenUpWhileItsWorkerAnswers(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.mayBeSent()
		asks := make(chan *nats.Msg, 8)
		d.listen("turnlog.cancel.*", asks)
		const leases = 3
		go func() {
			for range leases {
				<-asks
				d.says("t", true)
			}
		}()
		d.wantRun("held without renewals", x("q", "t"), leases*jetstream.DirectLease+endOfLease)
		if len(d.sent) != 1 || len(asks) != 1 {
			d.t.Errorf("%d calls were sent, and %d more questions asked; want 1 and 1", len(d.sent), len(asks))
		}
	})
}

// Both arrive before Run looks.
func TestARenewalDoesNotHideARefusal(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.Ask(x("q", "t"))
		d.heard("t", false)
		d.heard("t", true)
		d.wantRun("refused", x("q", "t"), 0)
	})
}

func TestACallThatAWorkerHoldsIsNotSentAgain(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.Ask(x("q", "t"))
		d.says("t", true)
		<-time.After(keepAsked / 2)
		d.wantRun("held", x("q", "t"), endOfLease)
		if len(d.sent) > 0 {
			d.t.Error("the call was sent again")
		}
		d.Ask(x("q", "t"))
		<-time.After(keepAsked)
		synctest.Wait()
		if len(d.calls) > 0 {
			d.t.Errorf("%d calls are remembered that were not run", len(d.calls))
		}
	})
}

func TestALaterDispatchReplacesACall(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.mayBeSent()
		ctx, end := context.WithCancel(d.t.Context())
		first := make(chan bool)
		go func() { first <- d.Run(ctx, x("q", "t")) }()
		<-d.sent
		go func() {
			<-d.sent
			end()
			if !<-first {
				d.t.Error("something is left to do for the first dispatch, which has ended")
			}
			d.heard("t", false)
		}()
		d.wantRun("refused", x("q", "t"), 0)
		if len(d.calls) > 0 {
			d.t.Errorf("%d calls are remembered", len(d.calls))
		}
	})
}

// Someone listens to all calls, so the server does not say that a queue has no worker. What workers of other queues
// say must not make the node wait for each call.
func TestCallsThatOnlyOthersHearAreNotAwaitedForLong(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.mayBeSent()
		d.listen("turnlog.call.>", make(chan *nats.Msg, 100))
		began := time.Now()
		for range 20 {
			if _, done := d.runs(x("other", "t")); done {
				d.t.Error("no worker has the call")
			}
			d.says("another", true)
			synctest.Wait()
		}
		if waited := time.Since(began); waited > endOfLease {
			d.t.Errorf("20 calls waited for %v", waited)
		}
	})
}

// A task that is stored after its call was canceled runs: the cancel did not find it.
func TestACallThatHasEndedIsNotDispatched(t *testing.T) {
	inBubble(t, func(d *deployment) {
		d.mayBeSent()
		ctx, end := context.WithCancel(d.t.Context())
		end()
		for range 20 { // of two things that have happened, either may be seen first
			d.Ask(x("q", "t"))
			d.heard("t", false)
			if !d.Run(ctx, x("q", "t")) || !d.Run(ctx, x("q", "new")) {
				d.t.Fatal("something is left to do")
			}
		}
		if synctest.Wait(); len(d.sent) > 0 {
			d.t.Errorf("%d calls were sent", len(d.sent))
		}
	})
}

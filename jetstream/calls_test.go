package jetstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

// slots claims tasks with n slots of a worker, and returns the claims.
func slots(t *testing.T, c *Cell, n int) chan task.Claim {
	t.Helper()
	q, err := c.Queue(t.Context(), "q")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	got := make(chan task.Claim, 100)
	for range n {
		go func() {
			for ctx.Err() == nil {
				c, err := q.Claim(ctx)
				if errors.Is(err, nats.ErrConnectionClosed) {
					return
				}
				if err == nil {
					got <- c
				}
			}
		}()
	}
	synctest.Wait()
	return got
}

func wantNoClaim(t *testing.T, got <-chan task.Claim) {
	t.Helper()
	<-time.After(time.Minute)
	if len(got) > 0 {
		t.Errorf("claimed %+v", (<-got).Task())
	}
}

func directTask(e content.Effects) task.Task {
	return task.Task{Session: "s1", Queue: "q", Place: "t1-r1-c1", Call: "call_1_1", Attempt: 1, Tool: "rm", Effects: e, Direct: e != content.Once, Ticket: "t"}
}

func TestASpoofedCallIsNotClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		x := directTask(content.ReadOnly)
		data, err := encodeValue(&x)
		must(t, err)
		spoof(t, c, c.names.Call("q", "s1", x.Place), data)
		x.Effects = content.Once // no driver sends such a call without storing it
		if !c.Tasks().SendDirectly(t.Context(), x, "n") {
			t.Fatal("not sent")
		}
		wantNoClaim(t, got)
	})
}

func TestASpoofedQuestionRedirectsNoRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		x := directTask(content.ReadOnly)
		if !c.Tasks().SendDirectly(t.Context(), x, "good") {
			t.Fatal("not sent")
		}
		cl := <-got
		data, err := encodeValue(&cancelNotice{Asks: "q", Place: x.Place, Node: "evil"})
		must(t, err)
		spoof(t, c, c.names.Cancel("s1"), data)
		heard := 0
		must(t, c.Tasks().Hear(t.Context(), "good", func(string, bool) { heard++ }))
		synctest.Wait()
		must(t, cl.Extend(within(t, time.Second)))
		must(t, c.nc.FlushWithContext(within(t, time.Minute)))
		synctest.Wait()
		if heard == 0 {
			t.Error("the renewal went to another node")
		}
	})
}

func TestAnOldCancelStopsNoLaterDirectCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		x := directTask(content.ReadOnly)
		must(t, c.Tasks().Dispatch(t.Context(), x))
		first := <-got
		must(t, c.Tasks().Cancel(t.Context(), "q", "s1", x.Place, "enough"))
		synctest.Wait()
		must(t, first.Done(t.Context()))
		<-time.After(time.Hour)
		x.Attempt = 2
		if !c.Tasks().SendDirectly(t.Context(), x, "n") {
			t.Fatal("not sent")
		}
		second := <-got
		second.OnCancel(func(r string) { t.Errorf("canceled an hour later: %s", r) })
	})
}

func TestACancelOfADirectCallStopsNoTaskOfTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		x := directTask(content.ReadOnly)
		c.Tasks().SendDirectly(t.Context(), x, "n")
		first := <-got
		must(t, c.Tasks().Cancel(t.Context(), "q", "s1", x.Place, "enough"))
		synctest.Wait()
		must(t, first.Done(t.Context()))
		x.Attempt, x.Direct = 2, false
		must(t, c.Tasks().Dispatch(t.Context(), x))
		second := <-got
		second.OnCancel(func(r string) { t.Errorf("attempt 2, from the queue, was canceled: %s", r) })
	})
}

func TestALeaseWithoutAConnectionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t)
		driver := provision(t, connect(t, srv), queueOf{name: "q"})
		nc := connect(t, srv)
		w, err := Open(nc, DefaultNamespace)
		must(t, err)
		got := slots(t, w, 4)
		driver.Tasks().SendDirectly(t.Context(), directTask(content.Idempotent), "n")
		cl := <-got
		nc.Close()
		for range 10 {
			<-time.After(DirectLease / 3)
			if err := cl.Extend(within(t, time.Second)); err != nil {
				return
			}
		}
		t.Error("a claim without a connection was renewed for 20 s")
	})
}

// The sender of a call must not make a worker publish for it.
func TestAWorkerDoesNotAnswerToTheReplyOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		const reply = "elsewhere"
		answers, err := c.nc.SubscribeSync(reply)
		must(t, err)
		x := directTask(content.ReadOnly)
		data, err := encodeValue(&x)
		must(t, err)
		must(t, c.nc.PublishMsg(&nats.Msg{Subject: c.names.Call("q", "s1", x.Place), Reply: reply, Data: data, Header: nats.Header{layout.HeaderTicket: {"t"}, layout.HeaderHeld: {"n"}}}))
		cl := <-got
		must(t, cl.Extend(within(t, time.Second)))
		must(t, cl.Report(within(t, time.Second), task.Report{Session: "s1", Call: x.Call, Place: x.Place, Attempt: 1, Queue: "q"}))
		must(t, cl.Done(within(t, time.Second)))
		synctest.Wait()
		if n, _, err := answers.Pending(); n > 0 || err != nil {
			t.Errorf("%d answers, %v", n, err)
		}
	})
}

func TestCancelsOfDirectCallsDoNotPushOutThoseOfTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		x := directTask(content.ReadOnly)
		must(t, c.Tasks().Dispatch(t.Context(), x))
		first := <-got
		must(t, c.Tasks().Cancel(t.Context(), "q", "s1", x.Place, "enough"))
		for range rememberedCancels {
			<-time.After(10 * time.Millisecond)
			must(t, c.Tasks().Cancel(t.Context(), "q", "s2", x.Place, "enough"))
		}
		must(t, first.Release(t.Context()))
		canceled := false
		(<-got).OnCancel(func(string) { canceled = true })
		if !canceled {
			t.Error("the cancel was forgotten")
		}
	})
}

func TestAReleasedCallIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		got := slots(t, c, 4)
		var last []bool
		must(t, c.Tasks().Hear(t.Context(), "n", func(_ string, held bool) { last = append(last, held) }))
		synctest.Wait()
		c.Tasks().SendDirectly(t.Context(), directTask(content.ReadOnly), "n")
		cl := <-got
		must(t, cl.Release(within(t, time.Second)))
		err := cl.Extend(within(t, time.Second))
		synctest.Wait()
		if !errors.Is(err, task.ErrGone) || len(last) != 1 {
			t.Errorf("the node heard %v, and Extend = %v", last, err)
		}
	})
}

func TestOnlyTheServerAnswersAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, heard := newCell(t), 0
		must(t, c.Tasks().Hear(t.Context(), "n", func(ticket string, held bool) {
			if heard++; ticket != Probed || held {
				t.Errorf("heard %t about %q", held, ticket)
			}
		}))
		synctest.Wait()
		must(t, c.say("n", Probed, true))
		synctest.Wait()
		if heard > 0 {
			t.Error("a worker answered")
		}
		c.Tasks().Probe("n")
		synctest.Wait()
		if heard != 1 {
			t.Errorf("%d answers of the server", heard)
		}
	})
}

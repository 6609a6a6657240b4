package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

// decidedTask is a task that its driver decided some time ago, in its first epoch.
func decidedTask(ago time.Duration) task.Task {
	x := shellTask("t1-r1-c1")
	x.Epoch, x.Decided = 1, content.TimeOf(time.Now().Add(-ago))
	return x
}

// claimNothing checks that the queue has no task for a worker within a time.
func claimNothing(t *testing.T, q *Queue, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if got, err := q.Claim(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Claim = %v, %v, want nothing", got, err)
	}
}

// TestTaskOfAReplacedDriverDoesNotRunTwice publishes a task late, after the driver's successor has
// dispatched it again and it has run.
func TestTaskOfAReplacedDriverDoesNotRunTwice(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		effects  content.Effects
		decided  time.Duration // before it is stored
		epoch    uint64
		fence    uint64 // 0: none
		admitted bool
	}{
		"late, after a fence":                {content.Once, 6 * time.Second, 1, 2, false},
		"late, by a clock that is ahead":     {content.Once, -6 * time.Second, 1, 2, false},
		"late, by the driver with the fence": {content.Once, 6 * time.Second, 2, 2, true},
		"late, and no fence":                 {content.Once, 6 * time.Second, 1, 0, true},
		"in time: it was there before":       {content.Once, 10 * time.Millisecond, 1, 2, true},
		"late, and it may run twice":         {content.Idempotent, 6 * time.Second, 1, 2, true},
		"of a release that knew no epochs":   {content.Once, 6 * time.Second, 0, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCell(t, queueOf{name: "tools"})
				q := worker(t, c.nc)
				task1 := shellTask("t1-r1-c1")
				task1.Effects, task1.Epoch, task1.Decided = x.effects, x.epoch, content.TimeOf(time.Now().Add(-x.decided))
				if x.fence > 0 {
					must(t, c.Tasks().Fence(t.Context(), task1.Session, x.fence))
				}
				must(t, c.Tasks().Dispatch(t.Context(), task1))
				if x.admitted {
					must(t, claimTask(t, q, 2*time.Minute).Done(t.Context()))
				} else {
					claimNothing(t, q, 2*time.Minute)
				}
				if queued, err := c.Tasks().Queued(t.Context(), task1); queued || err != nil {
					t.Errorf("it is still on its queue: %v, %v", queued, err)
				}
				must(t, q.Close(t.Context()))
			})
		})
	}
}

// TestDeliveredTaskIsNotFenced covers a task whose worker died, then its driver. The next driver
// must learn that it was delivered, or the call would run again.
func TestDeliveredTaskIsNotFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		q := worker(t, c.nc)
		x := decidedTask(time.Second)
		must(t, c.Tasks().Dispatch(t.Context(), x))
		if first := claimTask(t, q, time.Second); first.Delivery() != 1 {
			t.Fatalf("delivery = %d", first.Delivery())
		}
		must(t, c.Tasks().Fence(t.Context(), x.Session, 2))
		again := claimTask(t, q, time.Minute)
		if again.Delivery() != 2 {
			t.Errorf("delivery = %d, want 2", again.Delivery())
		}
		must(t, again.Done(t.Context()))
		must(t, q.Close(t.Context()))
	})
}

// TestFencedTaskIsReportedBeforeItIsRemoved checks that a worker that dies in between leaves a
// report or the task.
func TestFencedTaskIsReportedBeforeItIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s), queueOf{name: "tools"})
		x := decidedTask(time.Second)
		x.Ticket = "its ticket"
		must(t, c.Tasks().Fence(t.Context(), x.Session, 2))
		must(t, c.Tasks().Dispatch(t.Context(), x))
		said, err := c.Inbox().Listen(t.Context(), x.Session)
		must(t, err)
		defer said.Close()
		_, err = c.nc.Subscribe("$JS.ACK.>", func(*nats.Msg) {
			if any, err := c.Inbox().HasAny(t.Context(), x.Session); !any || err != nil {
				t.Errorf("the task is acknowledged, but its session has no report: %v, %v", any, err)
			}
		})
		must(t, err)
		must(t, c.nc.FlushWithContext(within(t, time.Second)))
		q := worker(t, connect(t, s))
		claimNothing(t, q, time.Minute)
		m, err := next(within(t, time.Second), said)
		must(t, err)
		number := m.Envelope.Command.(commands.ReportOvertaken).Task
		want := Message{Lane: events.LaneReport, Seq: m.Seq, At: m.At, Ticket: x.Ticket, Envelope: commands.Envelope{
			ID: fmt.Sprint("overtaken/t1-r1-c1/1/", number), Session: x.Session,
			Command: commands.ReportOvertaken{Place: x.Place, Attempt: 1, Task: number},
		}}
		if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(Message{})); diff != "" || number == 0 {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if _, err := c.api.Last(t.Context(), c.names.RunStream(), c.names.Run(x.Session)); err != nil {
			t.Errorf("the session of a dropped task has no token: %v", err)
		}
		must(t, q.Close(t.Context()))
	})
}

// TestTakeOffRemovesOnlyTheNamedTask checks that tasks of other calls and numbers stay.
func TestTakeOffRemovesOnlyTheNamedTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		other, x := shellTask("t1-r1-c2"), shellTask("t1-r1-c1")
		must(t, c.Tasks().Dispatch(t.Context(), other)) // number 1
		must(t, c.Tasks().Dispatch(t.Context(), x))     // number 2
		for _, step := range []struct {
			number uint64
			gone   bool
		}{{1, false}, {3, false}, {2, true}, {2, true}} {
			if gone, err := c.Tasks().TakeOff(t.Context(), x, step.number); gone != step.gone || err != nil {
				t.Errorf("TakeOff of number %d = %v, %v, want %v", step.number, gone, err, step.gone)
			}
		}
		if queued, err := c.Tasks().Queued(t.Context(), other); !queued || err != nil {
			t.Errorf("another call's task is on its queue: %v, %v", queued, err)
		}
	})
}

func TestAFenceNeverMovesBack(t *testing.T) {
	t.Parallel()
	overWeeks(t, func(t *testing.T, c *Cell, pass func(time.Duration) *Cell) {
		for _, x := range []struct{ put, want uint64 }{{3, 3}, {2, 3}, {4, 4}, {4, 4}} {
			must(t, c.Tasks().Fence(t.Context(), "s1", x.put))
			got, _, err := c.fences().Get(t.Context(), "s1")
			if got.Value.Epoch != x.want || err != nil {
				t.Errorf("after %d the fence is %v, %v, want %d", x.put, got.Value, err, x.want)
			}
			if got.Seq == 0 {
				t.Error("the fence has no sequence")
			}
		}
		c = pass(fenceTTL + time.Minute)
		must(t, c.Tasks().Fence(t.Context(), "s1", 1))
		if got, _, err := c.fences().Get(t.Context(), "s1"); got.Value.Epoch != 1 || err != nil {
			t.Errorf("after an expired one the fence is %v, %v", got, err)
		}
	})
}

// TestFencedTaskCanBeDispatchedAgain checks that a driver can dispatch the call under its own epoch
// if it is still owed.
func TestFencedTaskCanBeDispatchedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		q := worker(t, c.nc)
		old := decidedTask(time.Minute)
		must(t, c.Tasks().Fence(t.Context(), old.Session, 2))
		must(t, c.Tasks().Dispatch(t.Context(), old))
		claimed := make(chan task.Claim)
		go func() {
			got, err := q.Claim(t.Context())
			if err != nil {
				t.Error(err)
			}
			claimed <- got
		}()
		synctest.Wait()
		again := old
		again.Epoch = 2
		must(t, c.Tasks().Dispatch(t.Context(), again))
		got := <-claimed
		if got.Task().Epoch != 2 || got.Delivery() != 1 {
			t.Errorf("claimed the task of epoch %d, delivery %d", got.Task().Epoch, got.Delivery())
		}
		must(t, got.Done(t.Context()))
		must(t, q.Close(t.Context()))
	})
}

// TestATaskIsGivenBackOnce ends a claim while the fence is looked up. A task that was given back twice
// went to two workers.
func TestATaskIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "tools"})
		q := worker(t, c.nc)
		x := decidedTask(time.Second)
		must(t, c.Tasks().Dispatch(t.Context(), x))
		answers := make(chan *nats.Msg, 16)
		_, err := c.nc.ChanSubscribe(api.AckPrefix+c.names.TasksStream()+".>", answers)
		must(t, err)
		for _, b := range []layout.Bucket{c.names.Catalog(), c.names.Fences()} { // so that the look takes long
			must(t, jsOf(t, c).DeleteStream(t.Context(), b.Stream()))
		}
		claimNothing(t, q, time.Second)
		<-time.After(time.Second)
		if len(answers) != 1 {
			t.Errorf("the task was answered %d times, want once", len(answers))
		}
		must(t, q.Close(t.Context()))
	})
}

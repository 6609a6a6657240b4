package actor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// The network delays a driver's task until long after another driver took the session over.
func TestALateTaskOfAReplacedDriverDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := make(map[content.Place]int)
		release := make(chan struct{})
		w.workerOf(tool.Spec{Name: "echo"}, func(x task.Task) tool.Result {
			ran[x.Place]++
			if x.Place == "t1-r1-c1" {
				<-release
			}
			return echoed(x)
		})
		first := w.node("n1")
		s := w.Start("s", oneCall)
		began := content.TimeOf(time.Now())
		w.submit(s, "go")
		w.Until("s", events.KindToolDispatched)
		synctest.Wait()
		second := w.node("n2")
		first.Crash(t)
		<-time.After(20 * time.Second) // n2 has the session by now, with the call open
		close(release)
		late := task.Task{Session: "s", Place: "t1-r1-c2", Attempt: 1, Queue: "q", Tool: "echo", Input: []byte(`{}`), Epoch: 1, Decided: began}
		if err := w.Cell.Tasks().Dispatch(w.Ctx, late); err != nil {
			t.Fatal(err)
		}
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		synctest.Wait()
		if ran["t1-r1-c1"] != 1 || ran["t1-r1-c2"] != 0 {
			t.Errorf("calls ran %v, want the first one, once", ran)
		}
		second.Drain(t)
	})
}

// delayed delays a driver's tasks on their way to the queues.
type delayed struct {
	task.Dispatcher
	by time.Duration
}

func (b delayed) Dispatch(ctx context.Context, x task.Task) error {
	<-time.After(b.by)
	return b.Dispatcher.Dispatch(ctx, x)
}

// background lets the calls of a session continue while it is parked.
func background(c *events.Config) {
	c.Routes = []events.RouteRule{{Tool: "echo", Route: content.Background}}
}

// The next driver found the task and released the session. The worker refuses the task and reports
// it to the session.
func TestACallOfAReplacedDriverIsDispatchedAgain(t *testing.T) {
	t.Parallel()
	for name, diesThere := range map[string]bool{"with a live worker": false, "with a worker that dies after its report": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				spec := tool.Spec{Name: "echo"}
				if err := w.Cell.Catalog().Advertise(w.Ctx, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{spec}}); err != nil {
					t.Fatal(err)
				}
				first := w.nodeWith("n1", func(n *actor.Node) {
					n.Between(func(d task.Dispatcher) task.Dispatcher { return delayed{d, time.Second} })
				}, func(c *actor.Config) { c.Idle = time.Hour })
				s := w.startWith("s", oneCall, background)
				w.submit(s, "go")
				w.Until("s", events.KindToolDetached)
				<-time.After(3 * time.Second) // n1 recorded its token, and the task is there
				second := w.node("n2")
				first.Crash(t)
				w.untilOwned("s", "n2")
				w.Until("s", events.KindParked)
				<-time.After(time.Second)
				if diesThere {
					w.dropAndDie("s", "q")
				}
				ran := make(chan task.Task, 10)
				w.workerOf(spec, func(x task.Task) tool.Result {
					ran <- x
					return echoed(x)
				})
				<-time.After(20 * time.Second) // less than a lease
				if len(ran) != 1 {
					t.Errorf("the call ran %d times within 20 s, want once", len(ran))
				}
				<-time.After(5 * time.Minute)
				if len(ran) != 1 {
					t.Errorf("the call ran %d times, want once", len(ran))
				}
				if lost := turnlogtest.Facts[events.ToolAttemptLost](w.Deployment, "s"); len(lost) > 0 {
					t.Errorf("it was recorded as lost: %+v", lost)
				}
				if got := <-ran; got.Epoch < 2 {
					t.Errorf("the task of epoch %d ran, want its successor's", got.Epoch)
				}
				second.Drain(t)
			})
		})
	}
}

// untilOwned waits until a node has claimed the session.
func (w *world) untilOwned(id content.SessionID, node string) {
	w.T.Helper()
	for rec, err := range w.Cell.Journal().Follow(w.Ctx, id, 0) {
		if err != nil {
			w.T.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if c, ok := ev.(events.DriverClaimed); ok && c.Node == node {
				return
			}
		}
	}
}

// handed returns the next task of a queue, as a worker gets it.
func (w *world) handed(queue string) *nats.Msg {
	w.T.Helper()
	msg, err := w.Connect().RequestWithContext(w.Ctx, "$JS.API.CONSUMER.MSG.NEXT.TURNLOG_TASKS.q_"+queue, []byte("1"))
	if err != nil {
		w.T.Fatal(err)
	}
	return msg
}

// say sends a worker's report about a task.
func (w *world) say(id content.SessionID, of *nats.Msg, c commands.Command) {
	w.T.Helper()
	env := commands.Envelope{ID: "word", Session: id, Command: c}
	if _, err := w.Cell.Inbox().SendReport(w.Ctx, env, of.Header.Get("Turnlog-Ticket")); err != nil {
		w.T.Fatal(err)
	}
}

// dropAndDie is a worker that gets the first task of a queue, reports it overtaken, and dies before
// it takes the task off.
func (w *world) dropAndDie(id content.SessionID, queue string) {
	w.T.Helper()
	msg := w.handed(queue)
	meta, err := msg.Metadata()
	if err != nil {
		w.T.Fatal(err)
	}
	w.say(id, msg, commands.ReportOvertaken{Place: "t1-r1-c1", Attempt: 1, Task: meta.Sequence.Stream})
}

// The next driver finds the task on its queue before it reads the result.
func TestATaskThatArrivesAfterAnUnreadResultDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		spec := tool.Spec{Name: "echo"}
		if err := w.Cell.Catalog().Advertise(w.Ctx, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{spec}}); err != nil {
			t.Fatal(err)
		}
		first := w.nodeWith("n1", func(n *actor.Node) {
			n.Between(func(d task.Dispatcher) task.Dispatcher { return delayed{d, time.Second} })
		})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.Until("s", events.KindToolDispatched)
		<-time.After(3 * time.Second)
		first.Crash(t)
		msg := w.handed("q")
		done := tool.Result{Result: content.NewResult("call_1_1", "echo", content.StatusOK, "done once")}
		w.say("s", msg, commands.ReportResult{Place: "t1-r1-c1", Attempt: 1, Queue: "q", Outcome: done})
		if _, err := w.Connect().RequestWithContext(w.Ctx, msg.Reply, []byte("+ACK")); err != nil {
			t.Fatal(err)
		}
		late := &nats.Msg{Subject: "turnlog.task.q.s.t1-r1-c1", Header: msg.Header, Data: msg.Data}
		if _, err := w.Connect().RequestMsgWithContext(w.Ctx, late); err != nil {
			t.Fatal(err)
		}
		second := w.node("n2")
		if got := w.finish(s); got.Text() != "done once" {
			t.Errorf("answer = %q", got.Text())
		}
		ran := make(chan task.Task, 10)
		w.workerOf(spec, func(x task.Task) tool.Result {
			ran <- x
			return echoed(x)
		})
		<-time.After(5 * time.Minute)
		if len(ran) != 0 {
			t.Errorf("the call ran %d times more", len(ran))
		}
		second.Drain(t)
	})
}

// held loses the answer to the first dispatch, as when a server is suspended for a while.
type held struct {
	task.Dispatcher
	first chan task.Task // takes one
}

func (h held) Dispatch(ctx context.Context, x task.Task) error {
	select {
	case h.first <- x:
		return jetstream.ErrUnclear
	default:
		return h.Dispatcher.Dispatch(ctx, x)
	}
}

// The driver, which never lost the session, got no answer to its dispatch and dispatched the call
// again.
func TestATaskThatArrivesAfterItsRepetitionDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := make(chan task.Task, 10)
		first := make(chan task.Task, 1)
		w.workerOf(tool.Spec{Name: "echo"}, func(x task.Task) tool.Result {
			ran <- x
			return echoed(x)
		})
		n := w.nodeWith("n1", func(n *actor.Node) {
			n.Between(func(d task.Dispatcher) task.Dispatcher { return held{d, first} })
		})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		<-time.After(time.Second)
		if err := w.Cell.Tasks().Dispatch(w.Ctx, <-first); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if len(ran) != 1 {
			t.Errorf("the call ran %d times, want once", len(ran))
		}
		n.Drain(t)
	})
}

// dispatches records what is dispatched.
type dispatches struct {
	task.Dispatcher
	seen chan task.Task
}

func (d dispatches) Dispatch(ctx context.Context, x task.Task) error {
	d.seen <- x
	return d.Dispatcher.Dispatch(ctx, x)
}

// Another driver has claimed the session, and a worker refuses the call of the first one.
func TestAReplacedDriverDoesNotDispatchARefusedCallAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.Cell.Catalog().Advertise(w.Ctx, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "echo"}}}); err != nil {
			t.Fatal(err)
		}
		seen := make(chan task.Task, 100)
		n := w.nodeWith("n1", func(n *actor.Node) {
			n.Between(func(d task.Dispatcher) task.Dispatcher { return dispatches{d, seen} })
		})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.Until("s", events.KindToolDispatched)
		first := <-seen
		last, err := w.Cell.Journal().Last(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		claim := events.Entry{
			Session: "s", Cause: "claim/n2", At: content.TimeOf(time.Now()), Epoch: first.Epoch + 1,
			Events: []events.Event{events.DriverClaimed{Epoch: first.Epoch + 1, Node: "n2"}},
		}
		if _, err := w.Cell.Journal().Append(w.Ctx, last.Head, claim); err != nil {
			t.Fatal(err)
		}
		w.dropAndDie("s", "q")
		<-time.After(10 * time.Second)
		n.Drain(t)
		close(seen)
		for x := range seen {
			if x.Epoch == first.Epoch {
				t.Errorf("epoch %d dispatched %s again", x.Epoch, x.Place)
			}
		}
	})
}

package actor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

func TestMain(m *testing.M) {
	ramdisk.Use()
	parallel.Tests(4) // tests of clusters mostly wait
	turnlogtest.Main(m)
}

// world is a cell on a server in a bubble: virtual time, no sockets.
type world struct{ *turnlogtest.Deployment }

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	t.Cleanup(cancel)
	return &world{turnlogtest.Empty(ctx, t)}
}

func (w *world) node(name string, opts ...func(*actor.Config)) *turnlogtest.Process {
	w.T.Helper()
	return w.nodeWith(name, func(*actor.Node) {}, opts...)
}

func (w *world) nodeWith(name string, change func(*actor.Node), opts ...func(*actor.Config)) *turnlogtest.Process {
	w.T.Helper()
	cfg := actor.Config{Name: name}
	for _, o := range opts {
		o(&cfg)
	}
	return w.Node(cfg, change)
}

// worker answers calls with their input until the test ends.
func (w *world) worker(answer func(task.Task) tool.Result) {
	w.T.Helper()
	w.workerOf(tool.Spec{Name: "echo", Effects: content.ReadOnly}, answer)
}

func (w *world) workerOf(spec tool.Spec, answer func(task.Task) tool.Result) {
	w.T.Helper()
	w.workerOn(w.Open(w.Connect()), spec, answer)
}

func (w *world) workerOn(cell *jetstream.Cell, spec tool.Spec, answer func(task.Task) tool.Result) {
	w.T.Helper()
	offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{spec}}
	if err := cell.Catalog().Advertise(w.Ctx, offer); err != nil {
		w.T.Fatal(err)
	}
	if answer == nil { // the test takes the tasks itself
		return
	}
	q, err := cell.Queue(w.Ctx, "q")
	if err != nil {
		w.T.Fatal(err)
	}
	go func() {
		for {
			c, err := q.Claim(w.Ctx)
			if errors.Is(err, task.ErrForged) {
				continue
			}
			if err != nil {
				return
			}
			x := c.Task()
			_ = c.Report(w.Ctx, task.Report{
				Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: answer(x),
			})
			_ = c.Done(w.Ctx)
		}
	}()
}

func echoed(x task.Task) tool.Result {
	return tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, string(x.Input))}
}

func (w *world) startWith(id content.SessionID, script string, change func(*events.Config)) *session.Session {
	w.T.Helper()
	return w.Start(id, script, func(o *client.Options) { change(&o.Config) })
}

func (w *world) submit(s *session.Session, text string) {
	w.T.Helper()
	if err := s.Send(w.Ctx, events.Steer, content.UserText(text)); err != nil {
		w.T.Fatal(err)
	}
}

func (w *world) finish(s *session.Session) session.TurnResult {
	w.T.Helper()
	synctest.Wait() // until all entries have arrived: Next of an idle session returns at once
	step, err := s.Next(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	fin, ok := step.(*session.Finished)
	if !ok {
		w.T.Fatalf("Next = %T, want *session.Finished", step)
	}
	return fin.Result
}

func (w *world) owners(id content.SessionID) []string {
	w.T.Helper()
	var out []string
	for _, c := range turnlogtest.Facts[events.DriverClaimed](w.Deployment, id) {
		out = append(out, c.Node)
	}
	return out
}

const anHour = "replies:\n  - text: ok\n    delay: 1h\n"

// thinking opens a session whose model is in the middle of a call that takes an hour.
func (w *world) thinking(id content.SessionID) *session.Session {
	w.T.Helper()
	s := w.Start(id, anHour)
	w.submit(s, "go")
	w.Until(id, events.KindModelCallStarted)
	return s
}

// parked returns the session s, which has had one turn and is parked.
func (w *world) parked() *session.Session {
	s := w.Start("s", oneReply)
	w.submit(s, "one")
	w.finish(s)
	w.Until("s", events.KindParked)
	return s
}

const oneReply = "replies:\n  - text: ok\n    repeat: true\n"

func TestAnIdleSessionParksAndWakesForTheNextCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.parked()
		synctest.Wait()
		if any, err := w.Cell.Inbox().HasAny(w.Ctx, "s"); any || err != nil {
			t.Errorf("inbox of a parked session: %v, %v", any, err)
		}
		w.submit(s, "two")
		if got := w.finish(s); got.TurnID != "turn-2" {
			t.Errorf("turn = %s", got.TurnID)
		}
		if got := w.owners("s"); len(got) != 2 {
			t.Errorf("claims = %v, want two", got)
		}
		n.Drain(t)
	})
}

func TestTheSweepFindsASessionWhoseWakeWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.Start("s", oneReply)
		w.Until("s", events.KindParked)
		<-time.After(time.Second) // the token is gone
		env := commands.Envelope{ID: "x", Session: "s", Command: commands.SubmitInput{Items: []content.Item{content.UserText("hi")}}}
		if _, err := w.Cell.Inbox().Send(w.Ctx, env); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindTurnFinished)
		n.Drain(t)
	})
}

func TestACommandStaysInTheInboxWhileItsSessionWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("s", "replies:\n  - text: ok\n    delay: 5m\n")
		w.submit(s, "take your time")
		w.Until("s", events.KindModelCallStarted)
		<-time.After(2 * time.Minute)
		if any, err := w.Cell.Inbox().HasAny(w.Ctx, "s"); !any || err != nil {
			t.Errorf("inbox of a working session is empty: %v, %v", any, err)
		}
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if got := w.owners("s"); len(got) != 1 {
			t.Errorf("a long model call was driven by %v", got)
		}
		n.Drain(t)
	})
}

func TestADrainingNodeHandsItsSessionsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		s := w.Start("s", "replies:\n  - text: ok\n    delay: 10s\n")
		w.submit(s, "go")
		w.Until("s", events.KindModelCallStarted)
		second := w.node("n2")
		began := time.Now()
		first.Drain(t)
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the turn took %v after the hand-over, want its 10 s and not much more", took)
		}
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v", got)
		}
		second.Drain(t)
	})
}

func TestADrainingNodeParksIdleSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Idle = time.Hour })
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		synctest.Wait() // the submission's wake may come after its turn
		n.Drain(t)
		all := w.Records("s")
		if last := all[len(all)-1].Entry.Kinds(); !slices.Contains(last, events.KindParked) {
			t.Errorf("the journal ends with %s, want %s", last, events.KindParked)
		}
		if held, err := w.tokens("s"); held || err != nil {
			t.Errorf("there is a token: %v, %v", held, err)
		}
	})
}

func TestSessionsOfACrashedNodeContinueOnAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		s := w.Start("s", "replies:\n  - text: ok\n    delay: 10s\n")
		w.submit(s, "go")
		w.Until("s", events.KindModelCallStarted)
		second := w.node("n2")
		first.Crash(t)
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v", got)
		}
		second.Drain(t)
	})
}

const oneCall = `
replies:
  - calls: [{name: echo, input: {text: hi}}]
  - text: "{{(index .Results 0).Text}}"
`

func TestACallRunsOnceAcrossACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := 0
		release := make(chan struct{})
		w.worker(func(x task.Task) tool.Result {
			ran++
			<-release
			return echoed(x)
		})
		first := w.node("n1")
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.Until("s", events.KindToolDispatched)
		synctest.Wait()
		second := w.node("n2")
		first.Crash(t)
		<-time.After(20 * time.Second) // the lease expires and n2 takes the token
		close(release)
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		if ran != 1 {
			t.Errorf("the call ran %d times", ran)
		}
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v", got)
		}
		second.Drain(t)
	})
}

// asking is a policy that asks about every call.
type asking struct{ ttl time.Duration }

func (a asking) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "test.call", TTL: a.ttl}, nil
}

func withApprovals(ttl time.Duration) func(*actor.Config) {
	return func(c *actor.Config) { c.Effects = engine.Config{Permissions: asking{ttl}} }
}

func TestASessionParksWhileItWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.worker(echoed)
		n := w.node("n1", withApprovals(0))
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		step, err := s.Next(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		ask, ok := step.(*session.ApprovalRequest)
		if !ok {
			t.Fatalf("Next = %T, want *session.ApprovalRequest", step)
		}
		w.Until("s", events.KindParked)
		<-time.After(10 * time.Minute)
		if err := ask.Approve(w.Ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		n.Drain(t)
	})
}

func TestTheCallerGetsTheReasonOfARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("s", oneReply)
		err := s.Cancel(w.Ctx, "")
		if r, ok := errors.AsType[*session.InvalidStateError](err); !ok || r.Reason != "nothing_to_cancel" {
			t.Errorf("Cancel = %v", err)
		}
		_, err = w.Client.Start(w.Ctx, client.Options{ID: "s", Config: events.Config{Model: "scripted:test"}})
		if r, ok := errors.AsType[*session.InvalidStateError](err); !ok || r.Reason != "session_exists" {
			t.Errorf("second Start = %v", err)
		}
		n.Drain(t)
	})
}

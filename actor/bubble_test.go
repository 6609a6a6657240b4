package actor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func TestMain(m *testing.M) { celltest.Main(m) }

// world is a cell on a server in a bubble: virtual time, no sockets.
type world struct {
	*celltest.World
	t      *testing.T
	ctx    context.Context //nolint:containedctx // the test's
	cell   *jetstream.Cell
	client *client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	t.Cleanup(cancel)
	return worldOf(t, celltest.New(ctx, t, 0))
}

func worldOf(t *testing.T, w *celltest.World) *world {
	t.Helper()
	return &world{World: w, t: t, ctx: w.Ctx, cell: w.Cell, client: w.Client}
}

func (w *world) connect() *nats.Conn { return w.Connect() }

func (w *world) open(nc *nats.Conn) *jetstream.Cell { return w.Open(nc) }

// node is a running node that can be drained, or cut off as a crash would.
type node struct {
	*celltest.Process
	nc *nats.Conn
}

func (w *world) node(name string, opts ...func(*actor.Config)) *node {
	w.t.Helper()
	return w.nodeWith(name, func(*actor.Node) {}, opts...)
}

func (w *world) nodeWith(name string, change func(*actor.Node), opts ...func(*actor.Config)) *node {
	w.t.Helper()
	cfg := actor.Config{Name: name}
	for _, o := range opts {
		o(&cfg)
	}
	p := w.Node(cfg, change)
	return &node{p, p.Conn}
}

// drain ends the node as SIGTERM does.
func (n *node) drain(t *testing.T) {
	t.Helper()
	n.Drain(t)
}

// crash cuts the node off: nothing it does reaches the servers.
func (n *node) crash(t *testing.T) {
	t.Helper()
	n.Crash(t)
}

// worker answers calls with their input until the test ends.
func (w *world) worker(answer func(task.Task) tool.Result) {
	w.t.Helper()
	w.workerOf(tool.Spec{Name: "echo", Effects: content.ReadOnly}, answer)
}

func (w *world) workerOf(spec tool.Spec, answer func(task.Task) tool.Result) {
	w.t.Helper()
	cell := w.open(w.connect())
	offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{spec}}
	if err := cell.Catalog().Advertise(w.ctx, offer); err != nil {
		w.t.Fatal(err)
	}
	q, err := cell.Queue(w.ctx, "q")
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for {
			c, err := q.Claim(w.ctx)
			if err != nil {
				return
			}
			x := c.Task()
			_ = c.Report(w.ctx, task.Report{
				Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: answer(x),
			})
			_ = c.Done(w.ctx)
		}
	}()
}

func echoed(x task.Task) tool.Result {
	return tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, string(x.Input))}
}

func (w *world) start(id content.SessionID, script string) *session.Session {
	w.t.Helper()
	return w.startWith(id, script, func(*events.Config) {})
}

func (w *world) startWith(id content.SessionID, script string, change func(*events.Config)) *session.Session {
	w.t.Helper()
	return w.Start(id, script, func(o *client.Options) { change(&o.Config) })
}

func (w *world) submit(s *session.Session, text string) {
	w.t.Helper()
	if err := s.Send(w.ctx, events.Steer, content.UserText(text)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) finish(s *session.Session) session.TurnResult {
	w.t.Helper()
	step, err := s.Next(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	fin, ok := step.(*session.Finished)
	if !ok {
		w.t.Fatalf("Next = %T, want *session.Finished", step)
	}
	return fin.Result
}

func (w *world) until(id content.SessionID, k events.Kind) {
	w.t.Helper()
	w.Until(id, k)
}

func (w *world) records(id content.SessionID) []journal.Record {
	w.t.Helper()
	return w.Records(id)
}

func (w *world) owners(id content.SessionID) []string {
	w.t.Helper()
	var out []string
	for _, c := range w.claims(id) {
		out = append(out, c.Node)
	}
	return out
}

// claims are those of the drivers that a session had.
func (w *world) claims(id content.SessionID) []events.DriverClaimed {
	w.t.Helper()
	var out []events.DriverClaimed
	for _, rec := range w.records(id) {
		for _, ev := range rec.Entry.Events {
			if c, ok := ev.(events.DriverClaimed); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

const anHour = "replies:\n  - text: ok\n    delay: 1h\n"

// thinking opens a session whose model has begun a call that takes an hour.
func (w *world) thinking(id content.SessionID) *session.Session {
	w.t.Helper()
	s := w.start(id, anHour)
	w.submit(s, "go")
	w.until(id, events.KindModelCallStarted)
	return s
}

const oneReply = "replies:\n  - text: ok\n    repeat: true\n"

func TestAnIdleSessionIsParkedAndWakesForTheNextCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.start("s", oneReply)
		w.submit(s, "one")
		w.finish(s)
		w.until("s", events.KindParked)
		synctest.Wait()
		if any, err := w.cell.Inbox().HasAny(w.ctx, "s"); any || err != nil {
			t.Errorf("inbox of a parked session: %v, %v", any, err)
		}
		w.submit(s, "two")
		if got := w.finish(s); got.TurnID != "turn-2" {
			t.Errorf("turn = %s", got.TurnID)
		}
		if got := w.owners("s"); len(got) != 2 {
			t.Errorf("claims = %v, want two", got)
		}
		n.drain(t)
	})
}

func TestALostWakeHealsThroughTheSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.start("s", oneReply)
		w.until("s", events.KindParked)
		<-time.After(time.Second) // the token is gone
		env := commands.Envelope{ID: "x", Session: "s", Command: commands.SubmitInput{Items: []content.Item{content.UserText("hi")}}}
		if _, err := w.cell.Inbox().Send(w.ctx, env); err != nil {
			t.Fatal(err)
		}
		w.until("s", events.KindTurnFinished)
		n.drain(t)
	})
}

func TestWorkKeepsItsCommandInTheInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.start("s", "replies:\n  - text: ok\n    delay: 5m\n")
		w.submit(s, "take your time")
		w.until("s", events.KindModelCallStarted)
		<-time.After(2 * time.Minute)
		if any, err := w.cell.Inbox().HasAny(w.ctx, "s"); !any || err != nil {
			t.Errorf("inbox of a working session is empty: %v, %v", any, err)
		}
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if got := w.owners("s"); len(got) != 1 {
			t.Errorf("a long model call was driven by %v", got)
		}
		n.drain(t)
	})
}

func TestADrainingNodeHandsItsSessionsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		s := w.start("s", "replies:\n  - text: ok\n    delay: 10s\n")
		w.submit(s, "go")
		w.until("s", events.KindModelCallStarted)
		second := w.node("n2")
		began := time.Now()
		first.drain(t)
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the turn took %v after the hand-over, want its 10 s and little more", took)
		}
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v", got)
		}
		second.drain(t)
	})
}

func TestADrainingNodeParksWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Idle = time.Hour })
		s := w.start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		synctest.Wait() // the submission's wake may come after its turn
		n.drain(t)
		all := w.records("s")
		if last := all[len(all)-1].Entry.Kinds(); !slices.Contains(last, events.KindParked) {
			t.Errorf("the journal ends with %s, want %s", last, events.KindParked)
		}
		if held, err := w.tokens("s"); held || err != nil {
			t.Errorf("there is a token: %v, %v", held, err)
		}
	})
}

func TestACrashedNodesSessionsGoOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		s := w.start("s", "replies:\n  - text: ok\n    delay: 10s\n")
		w.submit(s, "go")
		w.until("s", events.KindModelCallStarted)
		second := w.node("n2")
		first.crash(t)
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v", got)
		}
		second.drain(t)
	})
}

const oneCall = `
replies:
  - calls: [{name: echo, input: {text: hi}}]
  - text: "{{(index .Results 0).Text}}"
`

func TestACallIsRunOnceAcrossACrash(t *testing.T) {
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
		s := w.start("s", oneCall)
		w.submit(s, "go")
		w.until("s", events.KindToolDispatched)
		synctest.Wait()
		second := w.node("n2")
		first.crash(t)
		<-time.After(20 * time.Second) // the token lapses and n2 takes it
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
		second.drain(t)
	})
}

// asking asks a person about every call.
type asking struct{ ttl time.Duration }

func (a asking) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "test.call", TTL: a.ttl}, nil
}

func withApprovals(ttl time.Duration) func(*actor.Config) {
	return func(c *actor.Config) { c.Effects = engine.Config{Permissions: asking{ttl}} }
}

func TestAnApprovalWaitsWithTheSessionParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.worker(echoed)
		n := w.node("n1", withApprovals(0))
		s := w.start("s", oneCall)
		w.submit(s, "go")
		step, err := s.Next(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		ask, ok := step.(*session.ApprovalRequest)
		if !ok {
			t.Fatalf("Next = %T, want *session.ApprovalRequest", step)
		}
		w.until("s", events.KindParked)
		<-time.After(10 * time.Minute)
		if err := ask.Approve(w.ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		n.drain(t)
	})
}

func TestAnUndecidedApprovalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.worker(echoed)
		n := w.node("n1", withApprovals(5*time.Minute))
		s := w.start("s", oneCall)
		w.submit(s, "go")
		w.until("s", events.KindParked)
		w.until("s", events.KindTurnFinished)
		for _, rec := range w.records("s") {
			for _, ev := range rec.Entry.Events {
				if r, ok := ev.(events.ApprovalResolved); ok && r.Outcome != events.Expired {
					t.Errorf("outcome = %s, want expired", r.Outcome)
				}
			}
		}
		n.drain(t)
	})
}

func TestARefusedAskIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.start("s", oneReply)
		err := s.Cancel(w.ctx, "")
		if r, ok := asRefused(err); !ok || r.Reason != "nothing_to_cancel" {
			t.Errorf("Cancel = %v", err)
		}
		_, err = w.client.Start(w.ctx, client.Options{ID: "s", Config: events.Config{Model: "scripted:test"}})
		if r, ok := asRefused(err); !ok || r.Reason != "session_exists" {
			t.Errorf("second Start = %v", err)
		}
		n.drain(t)
	})
}

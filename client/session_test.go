package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

// world is a cell in a bubble, where a leaked goroutine fails the test.
type world struct{ *turnlogtest.Deployment }

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return &world{turnlogtest.Empty(ctx, t, turnlogtest.Lease(5*time.Second))}
}

// drive runs a node until the returned function is called. Its calls wait long for workers.
func (w *world) drive(e engine.Config) (stop func()) {
	w.T.Helper()
	node := w.Node(actor.Config{Effects: e, WorkerPatience: time.Hour, Models: func(name string, data []byte) (model.Model, error) {
		m, err := scripted.Parse(name, data)
		if name == "reluctant" {
			return reluctant{m}, err
		}
		return m, err
	}})
	return func() { node.Drain(w.T) }
}

// reluctant is a model that takes a while to stop.
type reluctant struct{ model.Model }

func (m reluctant) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	reply, err := m.Model.Call(ctx, r, emit)
	<-time.After(10 * time.Second)
	return reply, err
}

func (w *world) start(id content.SessionID, script string, stepped bool, change func(*events.Config)) *session.Session {
	w.T.Helper()
	return w.Start(id, script, func(o *client.Options) {
		if o.Stepped = stepped; change != nil {
			change(&o.Config)
		}
	})
}

func next[S session.Step](w *world, s *session.Session) S {
	w.T.Helper()
	step, err := s.Next(w.Ctx)
	got, ok := step.(S)
	if err != nil || !ok {
		w.T.Fatalf("Next = %T %+v, %v; want %T", step, step, err, got)
	}
	return got
}

const repeated = "replies:\n  - text: ok\n    repeat: true\n"

// hand is a driver that a test moves by hand. It publishes no refusals.
type hand struct {
	w    *world
	id   content.SessionID
	head journal.Head
}

func (h *hand) append(cause string, cursors []events.Cursor, evs ...events.Event) {
	h.w.T.Helper()
	e := events.Entry{Session: h.id, Cause: cause, At: content.TimeOf(time.Now()), Epoch: 1, Cursors: cursors, Events: evs}
	head, err := h.w.Cell.Journal().Append(h.w.Ctx, h.head, e)
	if err != nil {
		h.w.T.Fatal(err)
	}
	h.head = head
}

func (h *hand) asks() []jetstream.Message {
	h.w.T.Helper()
	synctest.Wait()
	all, err := natstest.Collect(h.w.Cell.Inbox().Read(h.w.Ctx, h.id, nil, 0))
	for i := range all {
		if err == nil {
			err = h.w.Cell.Inbox().Open(h.w.Ctx, &all[i])
		}
	}
	if err != nil {
		h.w.T.Fatal(err)
	}
	return all
}

func TestAnAskThatTheJournalPassesOverIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := &hand{w: w, id: "s"}
		h.append("claim", nil, events.DriverClaimed{Epoch: 1, Node: "hand"})
		h.append("open", nil, events.RunStarted{Config: events.Config{Model: "none"}})
		s, err := w.Client.Attach(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(t.Context()) }()
		refused := make(chan error, 1)
		go func() { refused <- s.Cancel(w.Ctx, "") }()
		first := h.asks()[0]
		accepted := make(chan error, 1)
		go func() { accepted <- s.Send(w.Ctx, "", content.UserText("hi")) }()
		second := h.asks()[1]
		h.append(second.Envelope.ID, []events.Cursor{{Lane: second.Lane, Seq: second.Seq}},
			events.InputQueued{Items: []content.Item{content.UserText("hi")}})
		if err := <-accepted; err != nil {
			t.Errorf("Submit = %v", err)
		}
		r, ok := errors.AsType[*session.InvalidStateError](<-refused)
		if !ok || r.Reason != session.ReasonPassedOver {
			t.Errorf("Cancel = %v, want passed over at %d", r, first.Seq)
		}
	})
}

// A session that refused the probe of Settle has handled its input, even if the live refusal was
// lost: its next entry shows that, at the latest when it parks.
func TestASessionHasSettledIfOnlyTheLiveRefusalWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := &hand{w: w, id: "s"}
		h.append("claim", nil, events.DriverClaimed{Epoch: 1, Node: "hand"})
		h.append("open", nil, events.RunStarted{Config: events.Config{Model: "none"}})
		s, err := w.Client.Attach(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(t.Context()) }()
		sent := commands.SubmitInput{Items: []content.Item{content.UserText("hi")}}
		if err := w.Client.Send(w.Ctx, "s", "in", sent); err != nil {
			t.Fatal(err)
		}
		settled := make(chan error, 1)
		go func() { settled <- w.Client.Settle(w.Ctx, s) }()
		synctest.Wait()
		all := h.asks()
		if len(all) != 2 {
			t.Fatalf("the inbox has %d commands, want the input and a question", len(all))
		}
		h.append("in", []events.Cursor{{Lane: all[0].Lane, Seq: all[0].Seq}}, events.InputQueued{Items: sent.Items})
		synctest.Wait()
		select {
		case err := <-settled:
			t.Fatalf("Settle = %v before the session has handled the question", err)
		default:
		}
		h.append("park", []events.Cursor{{Lane: all[1].Lane, Seq: all[1].Seq}}, events.Parked{})
		if err := <-settled; err != nil {
			t.Errorf("Settle = %v", err)
		}
	})
}

// TestAnAskOfAnInboxThatBeganAgainWaitsForItsAnswer sends a command whose sequence is below a cursor in
// the journal, as happens after the stream was rolled back or created again.
func TestAnAskOfAnInboxThatBeganAgainWaitsForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := &hand{w: w, id: "s"}
		h.append("claim", nil, events.DriverClaimed{Epoch: 1, Node: "hand"})
		h.append("open", []events.Cursor{{Lane: events.LaneAsk, Seq: 1000, At: 1}}, events.RunStarted{Config: events.Config{Model: "none"}})
		s, err := w.Client.Attach(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(t.Context()) }()
		answer := make(chan error, 1)
		go func() { answer <- s.Send(w.Ctx, "", content.UserText("hi")) }()
		ask := h.asks()[0]
		<-time.After(time.Minute)
		h.append("other", nil, events.Warning{Code: "w"})
		<-time.After(time.Minute)
		h.append(ask.Envelope.ID, []events.Cursor{{Lane: ask.Lane, Seq: ask.Seq, At: ask.At}},
			events.InputQueued{Items: []content.Item{content.UserText("hi")}})
		if err := <-answer; err != nil {
			t.Errorf("Submit = %v", err)
		}
	})
}

func TestASecondCancelIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.drive(engine.Config{})()
		s := w.start("s", "replies:\n  - text: ok\n    delay: 1h\n", false, func(c *events.Config) { c.Model = "reluctant" })
		defer func() { _ = s.Close(t.Context()) }()
		if err := s.Send(w.Ctx, "", content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the model runs: a call that has not begun ends at once
		for range 2 {
			ctx, cancel := context.WithTimeout(w.Ctx, 5*time.Second)
			if err := s.Cancel(ctx, ""); err != nil {
				t.Errorf("Cancel = %v", err)
			}
			cancel()
		}
		if got := next[*session.Finished](w, s); got.Result.FinishReason != content.Cancelled {
			t.Errorf("finished as %s", got.Result.FinishReason)
		}
	})
}

// after is a slow mutator at the end of turns.
type after struct{}

func (after) Name() string { return "after" }

func (after) Mutate(ctx context.Context, m *extension.Mutation) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return ctx.Err()
}

func TestEveryTurnOfAnUnsteppedSessionIsSurfaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.drive(engine.Config{Mutators: []extension.Mutator{after{}}})()
		s := w.start("s", repeated, false, func(c *events.Config) {
			c.Mutators = []events.Registration{{Name: "after", Points: []string{string(extension.AfterTurnEnded)}}}
		})
		defer func() { _ = s.Close(t.Context()) }()
		for _, text := range []string{"one", "two", "three"} {
			if err := s.Send(w.Ctx, events.Queue, content.UserText(text)); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(time.Minute)
		for _, want := range []content.TurnID{"turn-1", "turn-2"} { // the second one takes both that waited
			if got := next[*session.Finished](w, s); got.Result.TurnID != want {
				t.Errorf("turn = %s, want %s", got.Result.TurnID, want)
			}
		}
		next[*session.AwaitingInput](w, s)
	})
}

func TestASteppedSessionIsContinuedOncePerWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := func() (*session.Session, error) {
			h := &hand{w: w, id: "s"}
			h.append("claim", nil, events.DriverClaimed{Epoch: 1, Node: "hand"})
			h.append("open", nil, events.RunStarted{Config: events.Config{Model: "none"}, Stepped: true})
			h.append("in", nil, events.InputQueued{Items: []content.Item{content.UserText("hi")}})
			return w.Client.Attach(w.Ctx, "s")
		}()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(t.Context()) }()
		for range 3 {
			ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
			if step, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Next = %T, %v", step, err)
			}
			cancel()
		}
		h := &hand{w: w, id: "s"}
		asks := h.asks()
		if len(asks) != 1 {
			t.Errorf("%d asks were sent, want one Continue", len(asks))
		}
		if _, ok := asks[0].Envelope.Command.(commands.Continue); !ok {
			t.Errorf("ask = %T", asks[0].Envelope.Command)
		}
	})
}

func TestEverythingEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.drive(engine.Config{})
		s := w.start("s", "replies:\n  - text: ok\n    delay: 30m\n", false, nil)
		if err := s.Send(w.Ctx, "", content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		stop()
		asked, stepped, followed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { asked <- s.Send(w.Ctx, "", content.UserText("no answer")) }()
		go func() {
			_, err := s.Next(w.Ctx)
			stepped <- err
		}()
		go func() {
			for _, err := range w.Client.Follow(w.Ctx, "s", 0) {
				if err != nil {
					followed <- err
				}
			}
			close(followed)
		}()
		synctest.Wait()
		w.Conn.Close()
		for name, c := range map[string]chan error{"Submit": asked, "Next": stepped, "Follow": followed} {
			if err := <-c; !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("%s = %v, want ErrConnectionClosed", name, err)
			}
		}
		_ = s.Close(t.Context())
		_ = s.Close(t.Context()) // does no harm
		if err := s.Send(w.Ctx, "", content.UserText("too late")); err == nil {
			t.Error("an ask after Close is accepted")
		}
	})
}

func TestAFollowerMayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.drive(engine.Config{})()
		s := w.start("s", repeated, false, nil)
		_ = s.Close(t.Context())
		n := 0
		for u, err := range w.Client.Follow(w.Ctx, "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Record != nil {
				n++
			}
			break
		}
		ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		for _, err := range w.Client.Follow(ctx, "s", 1) {
			if err != nil {
				t.Errorf("Follow ends with %v", err)
			}
			n++
		}
		if n < 3 {
			t.Errorf("%d entries", n)
		}
	})
}

// seen records what observers see.
type seen struct {
	kinds []events.Kind
	items []string
}

func (s *seen) HandleEvent(o extension.Observed) { s.kinds = append(s.kinds, events.KindOf(o.Event)) }

func (s *seen) OnItemAppended(_ content.SessionID, it content.Item) {
	s.items = append(s.items, it.Text())
}

func TestObserversSeeASessionFromWhereTheyAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.drive(engine.Config{})()
		slow := func(c *events.Config) { c.Model = "reluctant" } // so that fragments arrive well before the reply
		if _, err := w.start("s", repeated, false, slow).RunText(w.Ctx, "one"); err != nil {
			t.Fatal(err)
		}
		var got seen
		c, err := client.Open(w.Conn, "", client.WithObservers(&got), client.WithTranscriptObservers(&got))
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Attach(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.RunText(w.Ctx, "two")
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close(w.Ctx) // nothing more is seen
		if want := []string{"two", res.Response}; !slices.Equal(got.items, want) {
			t.Errorf("items %q, want %q", got.items, want)
		}
		end := slices.Index(got.kinds, events.KindTurnFinished)
		if !slices.Contains(got.kinds, events.KindContentDelta) || end < 0 || slices.Contains(got.kinds[end:], events.KindContentDelta) {
			t.Errorf("events %v", got.kinds)
		}
	})
}

// function is a verifier.
type function func(ctx context.Context) (bool, string, error)

func (f function) Verify(ctx context.Context, _ string) (bool, string, error) { return f(ctx) }

// A task waits for the function that verifies it, also when its client has ended and its driver
// was replaced.
func TestATaskWaitsForItsVerifyingClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.drive(engine.Config{})
		s := w.start("s", "replies: [{text: done}]", false, nil)
		entered := make(chan struct{})
		_, err := s.SubmitTask(w.Ctx, session.Task{Goal: "reach it", Verifier: function(func(ctx context.Context) (bool, string, error) {
			close(entered)
			<-ctx.Done() // its process ends
			return false, "", ctx.Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		<-entered
		if err := s.Close(w.Ctx); err != nil {
			t.Fatal(err)
		}
		stop()
		stop = w.drive(engine.Config{})
		if s, err = w.Client.Attach(w.Ctx, "s"); err != nil {
			t.Fatal(err)
		}
		res, err := s.RunTask(w.Ctx, session.Task{Verifier: function(func(context.Context) (bool, string, error) { return true, strings.Repeat("\xff-é", 1<<20), nil })})
		if err != nil || !res.Verified || res.Attempts != 1 {
			t.Errorf("RunTask = %+v, %v", res, err)
		}
		if got := turnlogtest.Facts[events.VerifyFinished](w.Deployment, "s"); len(got) != 1 || got[0].By != "client" {
			t.Errorf("verdicts = %+v, want one of the client", got)
		}
		if err := s.Close(w.Ctx); err != nil {
			t.Fatal(err)
		}
		stop()
	})
}

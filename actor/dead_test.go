package actor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// killable is a tool that names the worker that runs it, and waits until that worker is dead or may
// answer.
type killable struct {
	effects content.Effects
	began   chan string
	answer  chan struct{}
	worker  string
}

func (m killable) Spec() tool.Spec { return tool.Spec{Name: "killable", Effects: m.effects} }

func (m killable) Call(ctx context.Context, _ tool.Call) (tool.Output, error) {
	m.began <- m.worker
	select {
	case <-m.answer:
		return tool.Text("by " + m.worker), nil
	case <-ctx.Done():
		return tool.Output{}, context.Cause(ctx)
	}
}

const oneKillable = `
replies:
  - calls: [{name: killable, input: {}}]
  - text: "{{(index .Results 0).Text}}"
  - text: "I see."
    repeat: true
`

// workerGroup are workers that can be killed.
type workerGroup struct {
	w    *world
	tool killable
	all  map[string]*turnlogtest.Process
}

func (w *world) workerGroup(e content.Effects) *workerGroup {
	w.T.Helper()
	c := &workerGroup{w, killable{effects: e, began: make(chan string), answer: make(chan struct{})}, make(map[string]*turnlogtest.Process)}
	c.hire("w")
	return c
}

// crash ends a worker as kill -9 does.
func (c *workerGroup) Crash(name string) {
	c.w.T.Helper()
	c.all[name].Crash(c.w.T)
	delete(c.all, name)
}

// drain lets the living workers finish.
func (c *workerGroup) Drain() {
	c.w.T.Helper()
	for name := range c.all {
		c.dismiss(name)
	}
}

func (c *workerGroup) dismiss(name string) {
	c.w.T.Helper()
	c.all[name].Drain(c.w.T)
	delete(c.all, name)
}

func (c *workerGroup) hire(name string) {
	c.w.T.Helper()
	c.all[name] = c.w.Worker(name, worker.Config{Slots: 1, DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool {
		m := c.tool
		m.worker = name
		return []tool.Tool{m}
	})
}

// killWorkers kills each worker that runs the call until its session's turn ends, and returns how
// many it killed.
func (c *workerGroup) killWorkers(id content.SessionID) (killed int) {
	c.w.T.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.w.Until(id, events.KindTurnFinished)
	}()
	for {
		select {
		case name := <-c.tool.began:
			c.Crash(name)
			killed++
			c.hire("w" + strings.Repeat("w", killed))
		case <-over:
			return killed
		}
	}
}

func (w *world) dead() []content.SessionID {
	w.T.Helper()
	ids, err := w.Client.Dead(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	return ids
}

func (w *world) results(id content.SessionID) (out []string) {
	w.T.Helper()
	for _, r := range turnlogtest.Facts[events.ToolResultReceived](w.Deployment, id) {
		late := ""
		if r.Late {
			late = " late"
		}
		out = append(out, string(r.Result.Status)+late)
	}
	return out
}

// There are three attempts, each started by three workers. A person retries the dead letter after
// the node that recorded it is gone.
func TestACallThatKillsItsWorkersBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.workerGroup(content.ReadOnly)
		defer c.Drain()
		first := w.node("n1")
		w.submit(w.Start("s", oneKillable), "go")
		if killed := c.killWorkers("s"); killed != 9 {
			t.Errorf("the call killed %d workers, want 9", killed)
		}
		if got := w.results("s"); !slices.Equal(got, []string{"unknown"}) {
			t.Errorf("results: %v, want unknown", got)
		}
		if got := w.dead(); !slices.Equal(got, []content.SessionID{"s"}) {
			t.Errorf("dead letters in %v", got)
		}
		first.Crash(t)
		second := w.node("n2")
		w.send("s", "again", commands.SettleDeadLetter{Call: "call_1_1", Retry: true, By: "ann", Reason: "fixed"})
		name := <-c.tool.began
		close(c.tool.answer)
		w.Until("s", events.KindInputAccepted)
		w.Until("s", events.KindParked)
		synctest.Wait()
		if got := w.results("s"); !slices.Equal(got, []string{"unknown", "ok late"}) {
			t.Errorf("results: %v", got)
		}
		settled := turnlogtest.Facts[events.DeadLetterSettled](w.Deployment, "s")
		if want := (events.DeadLetterSettled{Call: "call_1_1", Outcome: events.DeadRetried, By: "ann", Reason: "fixed"}); len(settled) != 1 || settled[0] != want {
			t.Errorf("settled: %+v", settled)
		}
		state, _, err := w.Client.Read(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		if text := state.Transcript[len(state.Transcript)-2].Text(); text != "Background tool call call_1_1 completed: by "+name {
			t.Errorf("the model saw %q", text)
		}
		if n, err := w.Cell.DeadLetters().Noted(w.Ctx, "s"); n != 0 || err != nil {
			t.Errorf("no dead letter, but noted: %d, %v", n, err)
		}
		w.Records("s")
		second.Drain(t)
	})
}

func TestALostCallThatMayNotRunTwiceWaitsForAPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.workerGroup(content.Once)
		defer c.Drain()
		n := w.node("n1")
		s := w.Start("s", oneKillable)
		w.submit(s, "go")
		if killed := c.killWorkers("s"); killed != 1 {
			t.Errorf("the call killed %d workers, want 1", killed)
		}
		w.Until("s", events.KindParked)
		again := commands.SettleDeadLetter{Call: "call_1_1", Retry: true, By: "ann"}
		if r, ok := errors.AsType[*session.InvalidStateError](s.Ask(w.Ctx, again)); !ok || r.Reason != commands.ReasonMayRepeat {
			t.Errorf("retry: %+v", r)
		}
		again.MayRepeat = true
		if err := s.Ask(w.Ctx, again); err != nil {
			t.Fatal(err)
		}
		c.Crash(<-c.tool.began)
		c.hire("second") // which reports the loss
		<-time.After(2 * time.Minute)
		if got := w.dead(); !slices.Equal(got, []content.SessionID{"s"}) {
			t.Errorf("lost again, but dead letters are in %v", got)
		}
		if err := s.Ask(w.Ctx, commands.SettleDeadLetter{Call: "call_1_1", By: "bob"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if got := w.dead(); len(got) != 0 {
			t.Errorf("dropped, but dead letters are in %v", got)
		}
		if got := w.results("s"); !slices.Equal(got, []string{"unknown"}) {
			t.Errorf("results: %v", got)
		}
		w.Records("s")
		n.Drain(t)
	})
}

// The late result of a call that was answered as unknown is recorded. If another worker has
// finished the call, it is not.
func TestALateResultOfALostWorkerIsRecordedOnce(t *testing.T) {
	t.Parallel()
	for name, want := range map[content.Effects][]string{
		content.Once: {"unknown", "ok late"}, content.ReadOnly: {"ok"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := w.workerGroup(name)
			defer c.Drain()
			c.dismiss("w")
			w.Offer("hung", c.tool)
			q, err := w.Open(w.Connect()).Queue(w.Ctx, turnlogtest.Queue)
			if err != nil {
				t.Fatal(err)
			}
			n := w.node("n1")
			s := w.Start("s", oneKillable)
			w.submit(s, "go")
			hung, err := q.Claim(w.Ctx) // which then hangs
			if err != nil {
				t.Fatal(err)
			}
			close(c.tool.answer)
			go func() { <-c.tool.began }()
			c.hire("other")
			w.Until("s", events.KindTurnFinished)
			for range 2 {
				r := reportOn(hung.Task())
				if err := hung.Report(w.Ctx, r); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Minute)
			if got := w.results("s"); !slices.Equal(got, want) {
				t.Errorf("%q: results %v, want %v", name, got, want)
			}
			if got := w.dead(); len(got) != 0 {
				t.Errorf("%q: dead letters in %v", name, got)
			}
			w.Records("s")
			n.Drain(t)
			select {
			case c.tool.began <- "": // ends the helper that waited for a run
			default:
			}
		})
	}
}

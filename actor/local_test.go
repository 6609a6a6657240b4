package actor_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// localNode runs a node with a tool that answers with the node's name.
func (w *world) localNode(name string, k killable) *turnlogtest.Process {
	w.T.Helper()
	k.worker = name
	return w.NodeWithTools(actor.Config{Name: name}, worker.Config{Slots: 2, DrainTimeout: 5 * time.Second}, k)
}

// One entry has the reply and the start of its call, the next one the result. Workers offer the same tool
// for nothing, even one that pretends to be the node.
func TestANodeRunsTheToolsThatItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := killable{effects: content.Once, began: make(chan string, 1), answer: make(chan struct{})}
		close(k.answer)
		n := w.localNode("n1", k)
		for _, queue := range []string{"q", task.LocalQueue} {
			laxer := tool.Spec{Name: "killable", Effects: content.ReadOnly}
			if err := w.Cell.Catalog().Advertise(w.Ctx, jetstream.Offer{Worker: "forger-" + queue[:1], Queue: queue, Tools: []tool.Spec{laxer}}); err != nil {
				t.Fatal(err)
			}
		}
		s := w.Start("s", oneKillable)
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != "by n1" {
			t.Errorf("answer = %q", got.Text())
		}
		var entries int
		for _, rec := range w.Records("s") {
			for _, ev := range rec.Entry.Events {
				switch ev := ev.(type) { //nolint:gochecksumtype // the others do not matter
				case events.ToolDispatched:
					entries++
					if ev.Queue != task.LocalQueue {
						t.Errorf("dispatched to queue %q", ev.Queue)
					}
				case events.ToolCallRequested:
					if ev.Routing.Effects != content.Once {
						t.Errorf("routing = %+v", ev.Routing)
					}
				case events.ToolResultReceived:
					entries++
				}
			}
		}
		if entries != 2 {
			t.Errorf("%d records of the call", entries)
		}
		n.Drain(t)
	})
}

// The effects that the tool declares decide, as they do when a worker is lost.
func TestACallIsLostWithItsNode(t *testing.T) {
	t.Parallel()
	for effects, want := range map[content.Effects]string{
		content.ReadOnly: "by n2", content.Idempotent: "by n2",
		content.Once: "Outcome unknown: its worker was lost; it may or may not have taken effect",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			k := killable{effects: effects, began: make(chan string, 2), answer: make(chan struct{})}
			n1 := w.localNode("n1", k)
			s := w.Start("s", oneKillable)
			w.submit(s, "go")
			<-k.began
			n1.Crash(t)
			close(k.answer)
			n2 := w.localNode("n2", k)
			if got := w.finish(s); got.Text() != want {
				t.Errorf("%s: answer = %q, want %q", effects, got.Text(), want)
			}
			again := effects.Retryable()
			if ran := len(k.began) == 1; ran != again {
				t.Errorf("%s: it ran again: %t", effects, ran)
			}
			lost := turnlogtest.Facts[events.ToolAttemptLost](w.Deployment, "s")
			if len(lost) != 1 || lost[0].Attempt != 1 {
				t.Errorf("%s: lost attempts = %+v", effects, lost)
			}
			n2.Drain(t)
		})
	}
}

// Whatever its effects, a call in a node without the tool ends with an error that says so.
func TestALostCallNeedsANodeWithItsTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := killable{effects: content.ReadOnly, began: make(chan string, 1), answer: make(chan struct{})}
		n1 := w.localNode("n1", k)
		s := w.Start("s", oneKillable)
		w.submit(s, "go")
		<-k.began
		n1.Crash(t)
		n2 := w.node("n2")
		if got, want := w.finish(s).Text(), "Tool failed: node n2 does not have the tool killable: give all nodes the same tools"; got != want {
			t.Errorf("answer = %q, want %q", got, want)
		}
		n2.Drain(t)
	})
}

// A call that has begun ends before the session is handed over. The next call of the round does not begin,
// and the model learns that nothing was done.
func TestANodeThatStopsFinishesItsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := killable{effects: content.Once, began: make(chan string, 2), answer: make(chan struct{})}
		n1 := w.localNode("n1", k)
		s := w.Start("s", "replies:\n  - calls: [{name: killable, input: {}}, {name: killable, input: {}}]\n  - text: '{{range .Results}}{{.Text}}. {{end}}'\n")
		w.submit(s, "go")
		<-k.began
		n1.Stop()
		time.AfterFunc(2*time.Second, func() { close(k.answer) })
		n1.Drain(t)
		n2 := w.localNode("n2", k)
		if got, want := w.finish(s).Text(), "by n1. Tool failed: its node was stopped before the call began; nothing was done. "; got != want {
			t.Errorf("answer = %q, want %q", got, want)
		}
		if lost := turnlogtest.Facts[events.ToolAttemptLost](w.Deployment, "s"); len(lost) != 0 || len(k.began) != 0 {
			t.Errorf("lost %v, and %d more began", lost, len(k.began))
		}
		n2.Drain(t)
	})
}

// A call that does not end in time is stopped.
func TestANodeThatStopsGivesItsCallsATime(t *testing.T) {
	t.Parallel()
	for effects, want := range map[content.Effects]string{
		content.ReadOnly: "by n2", content.Once: "Outcome unknown: its worker was lost; it may or may not have taken effect",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			k := killable{effects: effects, began: make(chan string, 2), answer: make(chan struct{})}
			n1 := w.localNode("n1", k)
			s := w.Start("s", oneKillable)
			w.submit(s, "go")
			<-k.began
			stopped := time.Now()
			n1.Drain(t)
			if took := time.Since(stopped); took < 5*time.Second || took > 7*time.Second {
				t.Errorf("%s: the node stopped after %v, want the drain timeout of 5 s", effects, took)
			}
			close(k.answer)
			n2 := w.localNode("n2", k)
			if got := w.finish(s).Text(); got != want {
				t.Errorf("%s: answer = %q, want %q", effects, got, want)
			}
			n2.Drain(t)
		})
	}
}

// A report about the call from elsewhere has no ticket, and is ignored.
func TestAReportOfALocalCallCannotBeForged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := killable{effects: content.Once, began: make(chan string, 1), answer: make(chan struct{})}
		n := w.localNode("n1", k)
		s := w.Start("s", oneKillable)
		w.submit(s, "go")
		<-k.began
		c := turnlogtest.Facts[events.ToolDispatched](w.Deployment, "s")[0]
		_, err := w.Cell.Inbox().Send(w.Ctx, commands.Envelope{ID: "forged", Session: "s", Command: commands.ReportResult{
			Place: c.Place, Attempt: c.Attempt, Queue: c.Queue,
			Outcome: tool.Result{Result: content.NewResult(c.Call, "killable", content.StatusOK, "forged")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(k.answer)
		if got := w.finish(s).Text(); got != "by n1" {
			t.Errorf("answer = %q", got)
		}
		n.Drain(t)
	})
}

// Whichever node has the tool runs it.
func TestALostCallOfANodeMayBeRetriedByAPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := killable{effects: content.Once, began: make(chan string, 2), answer: make(chan struct{})}
		n1 := w.localNode("n1", k)
		w.submit(w.Start("s", oneKillable), "go")
		<-k.began
		n1.Crash(t)
		n2 := w.localNode("n2", k)
		w.Until("s", events.KindParked)
		w.send("s", "again", commands.SettleDeadLetter{Call: "call_1_1", Retry: true, MayRepeat: true, By: "ann"})
		if name := <-k.began; name != "n2" {
			t.Errorf("run again by %s", name)
		}
		close(k.answer)
		w.Until("s", events.KindInputAccepted)
		synctest.Wait()
		if got := w.results("s"); !slices.Equal(got, []string{"unknown", "ok late"}) {
			t.Errorf("results: %v", got)
		}
		n2.Drain(t)
	})
}

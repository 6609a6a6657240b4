package actor_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

func reportOn(x task.Task) task.Report {
	return task.Report{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: echoed(x),
	}
}

// A result, a loss or a question counts only if it comes from the owner of the task. Otherwise the
// call continues as if there was no report.
func TestAReportWithoutItsTicketHasNoEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		w.worker(func(x task.Task) tool.Result {
			<-release
			return echoed(x)
		})
		n := w.node("n1")
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.Until("s", events.KindToolDispatched)
		for id, c := range map[string]commands.Command{
			"a result":   commands.ReportResult{Place: "t1-r1-c1", Attempt: 1, Queue: "q"},
			"a loss":     commands.ReportAttemptLost{Place: "t1-r1-c1", Attempt: 1, Queue: "q"},
			"a question": commands.ReportQuestion{Place: "t1-r1-c1", Attempt: 1, Question: commands.Question{RequestKind: "x"}},
		} {
			w.send("s", id, c)
		}
		<-time.After(time.Minute) // the driver has looked for its task
		if got := w.results("s"); len(got) != 0 {
			t.Errorf("results: %v", got)
		}
		close(release)
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		if lost := turnlogtest.Facts[events.ToolAttemptLost](w.Deployment, "s"); len(lost) != 0 {
			t.Errorf("lost: %+v", lost)
		}
		w.Records("s")
		n.Drain(t)
	})
}

// The worker is of a release without tickets. It ran the call and took it off its queue, and its
// reports cannot be trusted.
func TestACallOfAWorkerWithoutTicketsDoesNotRunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := 0
		w.workerOf(tool.Spec{Name: "echo"}, func(x task.Task) tool.Result {
			ran++
			return echoed(x)
		})
		n := w.flakyNode("n1", func(ctx context.Context, x task.Task, next task.Dispatcher) error {
			x.Ticket = ""
			return next.Dispatch(ctx, x)
		})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.finish(s)
		if got := w.results("s"); ran != 1 || !slices.Equal(got, []string{"unknown"}) {
			t.Errorf("%d runs, results %v", ran, got)
		}
		w.Records("s")
		n.Drain(t)
	})
}

// A node of an earlier release, whose claim does not mention tickets, dispatched the call.
func TestACallFromBeforeTicketsNeedsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		call := content.ToolCall{ID: "call_1_1", Name: "echo", Input: []byte(`{}`)}
		s, head := loop.New("s"), journal.Head{}
		for i, c := range []commands.Command{
			commands.Claim{Node: "old", Token: "t"},
			commands.OpenSession{Config: events.Config{Model: "scripted:test", ModelData: []byte(oneCall)}},
			commands.SubmitInput{Items: []content.Item{content.UserText("go")}},
			commands.ReportReply{
				ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1},
				Items:     []content.Item{content.NewItem(content.Assistant, content.CallPart(call))},
				Routing:   []content.Routing{{Known: true, Queue: "q"}}, Checks: []commands.Check{{Place: "t1-r1-c1"}},
			},
		} {
			env := commands.Envelope{ID: strconv.Itoa(i), Session: "s", At: content.TimeOf(time.Now()), Command: c}
			evs, err := loop.Decide(s, env)
			if err != nil {
				t.Fatal(err)
			}
			e := events.Entry{Session: "s", Cause: env.ID, At: env.At, Epoch: 1, Events: evs}
			if head, err = w.Cell.Journal().Append(w.Ctx, head, e); err != nil {
				t.Fatal(err)
			}
			e.Seq = head.Seq
			s.Fold(e)
		}
		old := task.Task{Session: "s", Turn: "turn-1", Call: call.ID, Place: "t1-r1-c1", Attempt: 1, Queue: "q", Tool: "echo", Input: call.Input}
		if err := w.Cell.Tasks().Dispatch(w.Ctx, old); err != nil {
			t.Fatal(err)
		}
		w.worker(echoed)
		n := w.node("n1")
		if err := w.Cell.Runs().Wake(w.Ctx, "s"); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindTurnFinished)
		if got := w.results("s"); !slices.Equal(got, []string{"ok"}) {
			t.Errorf("results %v", got)
		}
		n.Drain(t)
	})
}

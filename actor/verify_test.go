package actor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/tasktest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

func verifierTool() tool.Spec {
	return tool.Spec{Name: loop.VerifierTool, Effects: content.Idempotent}
}

// judged is a worker's report of a verdict.
func judged(x task.Task, pass bool) tool.Result {
	f := events.VerifyFinished{Success: pass, Output: string(x.Input)}
	if !pass {
		f.Exit = 3
	}
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	r := content.NewResult(x.Call, x.Tool, content.StatusOK, "")
	r.Output = []content.Part{content.StructuredPart(raw)}
	return tool.Result{Result: r}
}

func (w *world) startTask(s *session.Session, retries int) {
	w.T.Helper()
	spec := events.TaskSpec{Goal: "make it green", Verifier: []string{"make", "check"}, MaxRetries: retries}
	if err := s.Ask(w.Ctx, commands.StartTask{Spec: spec}); err != nil {
		w.T.Fatal(err)
	}
}

// verdicts returns the verdicts of a session's verifiers, and the end of its last task.
func (w *world) verdicts(id content.SessionID) (verdicts []string, end events.TaskFinished) {
	w.T.Helper()
	for _, f := range turnlogtest.Facts[events.VerifyFinished](w.Deployment, id) {
		verdicts = append(verdicts, fmt.Sprint(f.Status, " ", f.Exit, " ", f.Output))
	}
	if all := turnlogtest.Facts[events.TaskFinished](w.Deployment, id); len(all) > 0 {
		end = all[len(all)-1]
	}
	return verdicts, end
}

func TestAVerifierRunsOnAWorkerUntilItPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ran []string
		w.workerOf(verifierTool(), func(x task.Task) tool.Result {
			ran = append(ran, string(x.Place))
			<-time.After(4 * time.Second) // the session does not park in the meantime
			return judged(x, len(ran) == 2)
		})
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.startTask(s, 3)
		w.Until("s", events.KindTaskFinished)
		got, end := w.verdicts("s")
		const input = `{"argv":["make","check"]}`
		if want := []string{"failed 3 " + input, "passed 0 " + input}; !slices.Equal(got, want) {
			t.Errorf("verdicts = %q, want %q", got, want)
		}
		if end.Status != "done" || !end.Verified || end.Attempts != 2 || !slices.Equal(ran, []string{"t1-v1", "t1-v2"}) {
			t.Errorf("task = %+v, ran %v", end, ran)
		}
		n.Drain(t)
	})
}

func TestNoModelSeesTheVerifierTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.workerOf(verifierTool(), func(x task.Task) tool.Result { return judged(x, true) })
		n := w.node("n1")
		s := w.Start("s", "replies:\n  - calls: [{name: "+loop.VerifierTool+", input: {argv: [rm]}}]\n  - text: \"{{(index .Results 0).Text}}\"\n")
		w.submit(s, "go")
		if got := w.finish(s).Text(); got != "Tool not found: "+loop.VerifierTool {
			t.Errorf("the model sees %q", got)
		}
		n.Drain(t)
	})
}

func TestAVerifierRunsOnceAcrossACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := 0
		w.workerOf(verifierTool(), func(x task.Task) tool.Result {
			ran++
			<-time.After(20 * time.Second)
			return judged(x, true)
		})
		first := w.node("n1")
		s := w.Start("s", oneReply)
		w.startTask(s, 0)
		w.Until("s", events.KindVerifyStarted)
		<-time.After(time.Second)
		second := w.node("n2")
		first.Crash(t)
		w.Until("s", events.KindTaskFinished)
		if _, end := w.verdicts("s"); end.Status != "done" || ran != 1 {
			t.Errorf("task = %+v, its verifier ran %d times", end, ran)
		}
		second.Drain(t)
	})
}

func TestAVerifierWhoseWorkerDiesRunsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.Cell.Catalog().Advertise(w.Ctx, jetstream.Offer{Worker: "dead", Queue: "q", Tools: []tool.Spec{verifierTool()}}); err != nil {
			t.Fatal(err)
		}
		q, err := w.Open(w.Connect()).Queue(w.Ctx, "q")
		if err != nil {
			t.Fatal(err)
		}
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.startTask(s, 0)
		if _, err := q.Claim(w.Ctx); err != nil { // and dies
			t.Fatal(err)
		}
		w.workerOf(verifierTool(), func(x task.Task) tool.Result { return judged(x, true) })
		w.Until("s", events.KindTaskFinished)
		if _, end := w.verdicts("s"); end.Status != "done" {
			t.Errorf("task = %+v", end)
		}
		n.Drain(t)
	})
}

// verifying is a session whose task is being verified by a worker of the test.
func (w *world) verifying() (*turnlogtest.Process, *session.Session, task.Claim) {
	w.T.Helper()
	offer := jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{verifierTool()}}
	if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
		w.T.Fatal(err)
	}
	q, err := w.Open(w.Connect()).Queue(w.Ctx, "q")
	if err != nil {
		w.T.Fatal(err)
	}
	n := w.node("n1")
	s := w.Start("s", oneReply)
	w.startTask(s, 0)
	c, err := q.Claim(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	return n, s, c
}

func TestACancelStopsTheVerifier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n, s, c := w.verifying()
		began := time.Now()
		if err := s.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		<-tasktest.Canceled(c)
		w.Until("s", events.KindTaskFinished)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the cancel took %v", took)
		}
		x := c.Task()
		late := task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: judged(x, true)}
		if err := c.Report(w.Ctx, late); err != nil {
			t.Fatal(err)
		}
		if err := c.Done(w.Ctx); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindParked)
		got, end := w.verdicts("s")
		if end.Status != "cancelled" || end.Verified || !slices.Equal(got, []string{"cancelled 0 "}) {
			t.Errorf("task = %+v, verdicts %q", end, got)
		}
		n.Drain(t)
	})
}

func TestAVerifierWaitsForAWorkerForALimitedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.startTask(s, 1)
		w.Until("s", events.KindVerifyStarted)
		<-time.After(31 * time.Second) // the first attempt gives up
		w.workerOf(verifierTool(), func(x task.Task) tool.Result { return judged(x, true) })
		w.Until("s", events.KindTaskFinished)
		got, end := w.verdicts("s")
		if end.Status != "done" || len(got) != 2 || !strings.HasPrefix(got[0], "failed -1 Tool failed: no worker runs the verifiers of tasks") {
			t.Errorf("task = %+v, verdicts %q", end, got)
		}
		n.Drain(t)
	})
}

func TestAQuestionAboutAVerifierFailsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n, _, c := w.verifying()
		x := c.Task()
		ask := task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Question: &tool.Verdict{Ruling: tool.Ask, RequestKind: "shell.command"}}
		if err := c.Done(w.Ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Report(w.Ctx, ask); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindTaskFinished)
		if got, end := w.verdicts("s"); end.Status != "failed" || len(got) != 1 || !strings.Contains(got[0], "asks for an approval (shell.command)") {
			t.Errorf("task = %+v, verdicts %q", end, got)
		}
		n.Drain(t)
	})
}

// A client may report what its own function found, but nothing about a command.
func TestNoClientReportsTheVerdictOfACommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n, s, c := w.verifying()
		st, _, err := w.Client.Read(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		forged := commands.ReportVerify{Task: st.Task.Name, Finished: events.VerifyFinished{Attempt: 1, Success: true}}
		if err := s.Ask(w.Ctx, forged); !errors.Is(err, session.ErrInvalidState) {
			t.Errorf("a client's verdict: %v", err)
		}
		x := c.Task()
		failed := task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: judged(x, false)}
		if err := errors.Join(c.Report(w.Ctx, failed), c.Done(w.Ctx)); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindTaskFinished)
		if got, end := w.verdicts("s"); end.Verified || len(got) != 1 || !strings.HasPrefix(got[0], "failed 3") {
			t.Errorf("task = %+v, verdicts %q", end, got)
		}
		n.Drain(t)
	})
}

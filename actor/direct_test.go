package actor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// reports counts the reports that workers send on a subject, or that the server stores there.
func (w *world) reports(subject string) (count func() int) {
	w.T.Helper()
	sub, err := w.Connect().SubscribeSync(subject)
	if err != nil {
		w.T.Fatal(err)
	}
	synctest.Wait() // until the server knows of the subscription
	return func() int {
		synctest.Wait()
		n, _, err := sub.Pending()
		if err != nil {
			w.T.Fatal(err)
		}
		return n
	}
}

// If a direct report of a call that must not run twice were lost with its worker, so would be its outcome.
func TestOnlyOutcomesOfCallsThatMayRunTwiceAreNotStoredFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		effects        content.Effects
		direct, stored int
	}{
		"a call that may run twice":      {effects: content.ReadOnly, direct: 1},
		"a call that must not run twice": {stored: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				direct, stored := w.reports("turnlog.report.s"), w.reports("turnlog.live.cmd.s.report")
				w.workerOf(tool.Spec{Name: "echo", Effects: tt.effects}, echoed)
				n := w.node("n1")
				s := w.Start("s", oneCall)
				w.submit(s, "go")
				if got := w.finish(s); got.Text() != `{"text":"hi"}` {
					t.Errorf("answer = %q", got.Text())
				}
				if direct() != tt.direct || stored() != tt.stored {
					t.Errorf("%d direct reports and %d stored ones, want %d and %d", direct(), stored(), tt.direct, tt.stored)
				}
				w.Records("s")
				n.Drain(t)
			})
		})
	}
}

// The node dies with the report, or before it could record it.
func TestADirectReportOutlivesItsDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		runs, began, release := 0, make(chan struct{}), make(chan struct{})
		w.worker(func(x task.Task) tool.Result {
			runs++
			close(began)
			<-release
			return echoed(x)
		})
		first := w.Node(actor.Config{Name: "n1", Metrics: slowAppends{}})
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		<-began
		stored := w.reports("turnlog.live.cmd.s.report")
		close(release)
		synctest.Wait() // the driver appends the result, and has not answered
		first.Crash(t)
		second := w.node("n2")
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		<-time.After(time.Minute)
		if got := w.results("s"); runs != 1 || !slices.Equal(got, []string{"ok"}) || stored() != 1 {
			t.Errorf("%d runs, results %v, %d stored reports", runs, got, stored())
		}
		w.Records("s")
		second.Drain(t)
	})
}

// outcome is the report of the first call of session s.
func outcome(attempt int) commands.Envelope {
	return commands.Envelope{ID: "result/t1-r1-c1/1", Session: "s", Command: commands.ReportResult{
		Place: "t1-r1-c1", Attempt: attempt, Queue: "q",
		Outcome: tool.Result{Result: content.NewResult("call_1_1", "echo", content.StatusOK, "done")},
	}}
}

// ask sends an outcome to the driver of session s itself and returns its answer.
func (w *world) ask(ticket string, attempt int) string {
	w.T.Helper()
	data, err := outcome(attempt).Encode()
	if err != nil {
		w.T.Fatal(err)
	}
	report := &nats.Msg{Subject: "turnlog.report.s", Data: data, Header: nats.Header{"Turnlog-Ticket": {ticket}}}
	ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
	defer cancel()
	answer, err := w.Connect().RequestMsgWithContext(ctx, report)
	if err != nil {
		return "nothing"
	}
	return string(answer.Data)
}

// callHandedOut starts session s on a node, whose call the test gets as its worker.
func (w *world) callHandedOut() (n *turnlogtest.Process, s *session.Session, ticket string) {
	w.T.Helper()
	w.workerOn(w.Cell, tool.Spec{Name: "echo", Effects: content.ReadOnly}, nil)
	n, s = w.node("n1"), w.Start("s", oneCall)
	w.submit(s, "go")
	return n, s, w.handed("q").Header.Get("Turnlog-Ticket")
}

// A worker reports directly and dies, or only its driver's answer is lost.
func TestAWorkerMayDieAroundItsDirectReport(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		driven bool // a driver receives the report
		stored bool // the worker lives and stores the report, too
		want   string
	}{
		"before a driver has it": {want: `{"text":"hi"}`},
		"before its ack":         {driven: true, want: "done"},
		"the answer is lost":     {driven: true, stored: true, want: "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n, s, ticket := w.callHandedOut()
				want := "true"
				if !tt.driven {
					n.Crash(t)
					want = "nothing"
				}
				if got := w.ask(ticket, 1); got != want {
					t.Errorf("answer = %q, want %q", got, want)
				}
				if tt.stored {
					if _, err := w.Cell.Inbox().SendReport(w.Ctx, outcome(1), ticket); err != nil {
						t.Fatal(err)
					}
				}
				if !tt.driven {
					n = w.node("n2")
				}
				runs := 0
				w.worker(func(x task.Task) tool.Result { // the lease of the dead worker expires
					runs++
					return echoed(x)
				})
				w.finish(s)
				<-time.After(5 * time.Minute)
				results := turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s")
				if runs != 1 || len(results) != 1 || results[0].Result.Text() != tt.want {
					t.Errorf("%d more runs, want one; results %+v, want one: %s", runs, results, tt.want)
				}
				w.Records("s")
				n.Drain(t)
			})
		})
	}
}

// A driver that has lost its session does not know the calls of the next one, so what it finds to have no effect may have one.
func TestADirectReportThatChangesNothingIsNotRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n, s, ticket := w.callHandedOut()
		for _, tt := range []struct {
			what, ticket string
			attempt      int
			want         string
		}{
			{"without a ticket", "", 1, "nothing"},
			{"with the ticket of another call", "AAAA", 1, "nothing"},
			{"of another attempt", ticket, 2, "nothing"},
			{"of the running attempt", ticket, 1, "true"},
		} {
			if got := w.ask(tt.ticket, tt.attempt); got != tt.want {
				t.Errorf("the driver answers a report %s with %q, want %q", tt.what, got, tt.want)
			}
		}
		w.finish(s)
		if got := turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s"); len(got) != 1 {
			t.Errorf("%d results", len(got))
		}
		n.Drain(t)
	})
}

package jetstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// done returns the report of an outcome of a call of shellTask.
func done(x task.Task, text string) task.Report {
	result := content.NewResult(x.Call, x.Tool, content.StatusOK, text)
	return task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: tool.Result{Result: result}}
}

// A report that its driver has recorded is not stored. Any other one is, so it is not lost.
func TestADirectReportIsStoredUnlessItsDriverHasIt(t *testing.T) {
	t.Parallel()
	answers := func(recorded bool) func(Message) { return func(m Message) { m.Answer(recorded) } }
	for name, tt := range map[string]struct {
		driver   func(Message) // nil: there is none
		stored   bool          // the dispatch does not allow direct reports
		question bool
		text     string
		received bool // by the driver
		want     int  // reports in the inbox
		woken    bool // the session, which may have parked since the dispatch
		after    time.Duration
	}{
		"recorded":                    {driver: answers(true), received: true},
		"not recorded":                {driver: answers(false), received: true, want: 1},
		"no answer":                   {driver: func(Message) {}, received: true, want: 1, woken: true, after: time.Second},
		"no driver":                   {want: 1, woken: true},
		"a call that cannot be again": {driver: answers(true), stored: true, want: 1},
		"a question":                  {driver: answers(true), question: true, want: 1},
		"a large output":              {driver: answers(true), text: strings.Repeat("x", maxInline), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCell(t, queueOf{name: "tools"})
				x := shellTask("t1-r1-c1")
				x.Ticket, x.Effects, x.Direct = "ticket", content.ReadOnly, !tt.stored
				received := 0
				if tt.driver != nil {
					l := listen(t, c, "s1")
					go func() {
						for {
							select {
							case raw := <-l.Direct():
								m := l.Report(raw)
								err := c.Inbox().Open(t.Context(), &m)
								if r, ok := m.Envelope.Command.(commands.ReportResult); err != nil || !ok || r.Place != x.Place || m.Ticket != "ticket" || m.At == 0 {
									t.Errorf("the driver received %+v: %v", m, err)
								}
								received++
								tt.driver(m)
							case <-t.Context().Done():
								return
							}
						}
					}()
				}
				must(t, c.Tasks().Dispatch(t.Context(), x))
				claim := claimTask(t, worker(t, c.nc), time.Second)
				report := done(x, tt.text)
				if tt.question {
					report.Question = &tool.Verdict{RequestKind: "run"}
				}
				began := time.Now()
				must(t, claim.Report(t.Context(), report))
				if took := time.Since(began); took != tt.after {
					t.Errorf("the report took %v, want %v", took, tt.after)
				}
				if got := len(read(t, c, "s1")); got != tt.want {
					t.Errorf("%d reports in the inbox, want %d", got, tt.want)
				}
				synctest.Wait()
				if tokens, err := c.Runs().Tokens(t.Context()); err != nil || len(tokens) > 0 != tt.woken {
					t.Errorf("the session's tokens: %v, %v", tokens, err)
				}
				if (received > 0) != tt.received {
					t.Errorf("the driver received %d reports", received)
				}
				must(t, claim.Done(t.Context()))
			})
		})
	}
}

// Permissions that earlier releases printed do not include direct reports.
func TestAWorkerThatMayNotReportDirectlyTriesOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t, embedded.WithSettings(`authorization { users: [
		{ user: admin, password: p }
		{ user: old, password: p, permissions: { publish: { deny: "turnlog.report.>" } } }
	] }`))
	c := provision(t, connect(t, s, nats.UserInfo("admin", "p")), queueOf{name: "tools"})
	q := worker(t, connect(t, s, nats.UserInfo("old", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
	for i := range 2 {
		x := shellTask(content.PlaceOf(1, 1, i+1))
		x.Effects, x.Direct = content.ReadOnly, true
		must(t, c.Tasks().Dispatch(t.Context(), x))
		claim := claimTask(t, q, time.Minute)
		must(t, claim.Report(t.Context(), done(x, "done")))
		if got := len(read(t, c, "s1")); got != i+1 {
			t.Errorf("%d reports in the inbox, want %d", got, i+1)
		}
		if !q.directDenied.Load() {
			t.Error("the worker will try again")
		}
		must(t, claim.Done(t.Context()))
	}
}

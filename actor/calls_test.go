package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// The first call of a node goes to the queue, and shows that workers receive what is sent to them. The second one waits.
const twoPauses = `
replies:
  - calls: [{name: pause, input: {}}]
  - calls: [{name: pause, input: {long: true}}]
  - text: "{{(index .Results 1).Text}}"
`

// pausing are workers of the tool pause.
type pausing struct {
	*world

	tasks   func() int  // that were stored
	began   chan string // the workers that began the long call
	answers chan struct{}
	stopped chan error // why a worker stopped the long call
}

func newPausing(t *testing.T) *pausing {
	t.Helper()
	w := newWorld(t)
	return &pausing{w, w.reports("turnlog.task.>"), make(chan string, 8), make(chan struct{}), make(chan error, 8)}
}

// hire starts a worker.
func (p *pausing) hire(name string, e content.Effects, slots int, change ...func(*worker.Config)) *turnlogtest.Process {
	p.T.Helper()
	cfg := worker.Config{Slots: slots, DrainTimeout: time.Second}
	for _, c := range change {
		c(&cfg)
	}
	pause, err := tool.Func("pause", "Waits.", func(ctx context.Context, in struct {
		Long bool `json:"long,omitempty"`
	},
	) (string, error) {
		if !in.Long {
			return "short", nil
		}
		p.began <- name
		select {
		case <-p.answers:
			return "by " + name, nil
		case <-ctx.Done():
			p.stopped <- context.Cause(ctx)
			return "", context.Cause(ctx)
		}
	}, tool.WithSpec(func(s *tool.Spec) { s.Effects = e }))
	if err != nil {
		p.T.Fatal(err)
	}
	return p.Worker(name, cfg, func(*nats.Conn) []tool.Tool { return []tool.Tool{pause} })
}

// inLongCall starts a node and a session, and returns once the worker w1 runs the long call.
func (p *pausing) inLongCall(e content.Effects) (n, w1 *turnlogtest.Process, s *session.Session) {
	p.T.Helper()
	w1, n = p.hire("w1", e, 8), p.node("n1")
	s = p.Start("s", twoPauses)
	p.submit(s, "go")
	if name := <-p.began; name != "w1" {
		p.T.Errorf("%s runs it", name)
	}
	return n, w1, s
}

// ends lets the long call answer, and checks by which worker and how many tasks were stored.
func (p *pausing) ends(s *session.Session, want string, stored int) {
	p.T.Helper()
	close(p.answers)
	if got := p.finish(s).Text(); got != want || p.tasks() != stored {
		p.T.Errorf("answer %q and %d stored tasks, want %q and %d", got, p.tasks(), want, stored)
	}
	p.Records("s")
}

func TestOnlyCallsThatMayRunTwiceAreNotStored(t *testing.T) {
	t.Parallel()
	for e, stored := range map[content.Effects]int{content.ReadOnly: 1, content.Idempotent: 1, content.Once: 2} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPausing(t)
				n, w1, s := p.inLongCall(e)
				<-time.After(time.Minute) // many times its lease
				if len(p.began) > 0 {
					t.Error("it runs twice")
				}
				p.ends(s, "by w1", stored)
				w1.Drain(t)
				n.Drain(t)
			})
		})
	}
}

func TestACallOutlivesTheWorkerThatItWasSentTo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		leave       func(*turnlogtest.Process, testing.TB)
		least, most time.Duration
	}{
		"killed":  {(*turnlogtest.Process).Crash, jetstream.DirectLease / 2, jetstream.DirectLease + time.Second},
		"drained": {(*turnlogtest.Process).Drain, time.Second, 2 * time.Second}, // its DrainTimeout
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPausing(t)
				n, w1, s := p.inLongCall(content.ReadOnly)
				w2 := p.hire("w2", content.ReadOnly, 8)
				<-time.After(time.Minute)
				began := time.Now()
				tt.leave(w1, t)
				if by := <-p.began; by != "w2" || time.Since(began) < tt.least || time.Since(began) > tt.most {
					t.Errorf("%s began it %v later", by, time.Since(began))
				}
				p.ends(s, "by w2", 2)
				w2.Drain(t)
				n.Drain(t)
			})
		})
	}
}

func TestACallThatWasSentToAWorkerOutlivesItsDriver(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*turnlogtest.Process, testing.TB){
		"killed":  (*turnlogtest.Process).Crash,
		"drained": (*turnlogtest.Process).Drain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPausing(t)
				first, w1, s := p.inLongCall(content.ReadOnly)
				w2 := p.hire("w2", content.ReadOnly, 8)
				second := p.node("n2")
				leave(first, t)
				<-time.After(time.Minute)
				if got := p.owners("s"); got[len(got)-1] != "n2" || len(p.began) > 0 {
					t.Errorf("drivers %v; %d more workers began the call", got, len(p.began))
				}
				p.ends(s, "by w1", 1)
				w1.Drain(t)
				w2.Drain(t)
				second.Drain(t)
			})
		})
	}
}

// A detached call is in the background, and the next driver would not send it directly.
func TestADetachedCallThatWasSentOutlivesItsDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPausing(t)
		first, w1, s := p.inLongCall(content.Idempotent)
		for _, c := range s.Calls().List() {
			natstest.Must(t, s.Calls().Detach(p.Ctx, c.Call))
		}
		second := p.node("n2")
		first.Drain(t)
		<-time.After(time.Minute)
		if len(p.began) > 0 || p.tasks() != 1 {
			t.Errorf("%d more workers began the call, %d stored tasks", len(p.began), p.tasks())
		}
		close(p.answers)
		p.Until("s", events.KindToolResultReceived)
		<-time.After(time.Minute)
		p.Records("s")
		w1.Drain(t)
		second.Drain(t)
	})
}

// Both the driver and the worker die.
func TestACallThatNoWorkerHoldsIsDispatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPausing(t)
		first, w1, s := p.inLongCall(content.ReadOnly)
		first.Crash(t)
		w1.Crash(t)
		w2, second := p.hire("w2", content.ReadOnly, 8), p.node("n2")
		if by := <-p.began; by != "w2" {
			t.Errorf("%s began it", by)
		}
		p.ends(s, "by w2", 2)
		w2.Drain(t)
		second.Drain(t)
	})
}

// The only worker dies between two calls, so no worker hears the second one.
func TestACallThatNoWorkerHearsGoesToTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPausing(t)
		w1, n := p.hire("w1", content.ReadOnly, 8), p.node("n1")
		s := p.Start("s", strings.Replace(twoPauses, "{long: true}}]", "{long: true}}]\n    delay: 10s", 1))
		p.submit(s, "go")
		<-time.After(5 * time.Second)
		w1.Crash(t)
		<-time.After(5*time.Second + time.Second/10)
		if got := p.tasks(); got != 2 {
			t.Errorf("%d stored tasks when the call has begun, want 2", got)
		}
		w2 := p.hire("w2", content.ReadOnly, 8)
		if by := <-p.began; by != "w2" {
			t.Errorf("%s began it", by)
		}
		p.ends(s, "by w2", 2)
		w2.Drain(t)
		n.Drain(t)
	})
}

// Such a report, which anyone with the role of a worker can send, must not make the next driver give up the call.
func TestAReportWithoutATicketDoesNotEndACallThatAWorkerHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPausing(t)
		first, w1, s := p.inLongCall(content.ReadOnly)
		first.Crash(t)
		forged := commands.Envelope{ID: "forged", Session: "s", Command: commands.ReportResult{Place: "t1-r2-c1", Attempt: 1, Queue: turnlogtest.Queue}}
		_, err := p.Cell.Inbox().SendReport(p.Ctx, forged, "")
		natstest.Must(t, err)
		second := p.node("n2")
		<-time.After(time.Minute)
		if lost := turnlogtest.Facts[events.ToolAttemptLost](p.Deployment, "s"); len(lost)+len(p.began) > 0 {
			t.Errorf("lost attempts %+v; %d more workers began the call", lost, len(p.began))
		}
		p.ends(s, "by w1", 1)
		w1.Drain(t)
		second.Drain(t)
	})
}

// lossy loses two of five messages about calls that are not stored. Someone is subscribed to the lost ones, or
// the server would tell their senders.
const lossy = `mappings {
  "turnlog.call.*.*.*": [{destination: "turnlog.call.$1.$2.$3", weight: 60%}, {destination: lost, weight: 40%}]
  "turnlog.held.*": [{destination: "turnlog.held.$1", weight: 60%}, {destination: lost, weight: 40%}]
  "turnlog.report.*": [{destination: "turnlog.report.$1", weight: 60%}, {destination: lost, weight: 40%}]
  "turnlog.cancel.*": [{destination: "turnlog.cancel.$1", weight: 60%}, {destination: lost, weight: 40%}]
}`

func TestEachMessageAboutACallMayBeLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{turnlogtest.On(t.Context(), t, natstest.Start(t, embedded.WithSettings(lossy)), admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: turnlogtest.Queue}}})}
		lost, direct := w.reports("lost"), w.reports("turnlog.report.*")
		const sessions, rounds = 20, 6
		var runs atomic.Int32
		slow, err := tool.Func("slow", "Takes 10 s.", func(context.Context, struct{}) (string, error) {
			runs.Add(1)
			<-time.After(10 * time.Second) // more than a lease
			return "done", nil
		}, tool.WithSpec(func(s *tool.Spec) { s.Effects = content.Idempotent }))
		natstest.Must(t, err)
		worker := w.Worker("w1", worker.Config{Slots: 64}, func(*nats.Conn) []tool.Tool { return []tool.Tool{slow} })
		first := w.node("n1")
		script := "replies:\n" + strings.Repeat("  - calls: [{name: slow, input: {}}]\n", rounds) + "  - text: end\n"
		var open []*session.Session
		for i := range sessions {
			s := w.Start(content.SessionID(fmt.Sprint("s", i)), script)
			w.submit(s, "go")
			open = append(open, s)
		}
		<-time.After(45 * time.Second) // in the middle of calls
		first.Crash(t)
		second := w.node("n2")
		for i, s := range open {
			w.Until(s.ID(), events.KindTurnFinished)
			results := turnlogtest.Facts[events.ToolResultReceived](w.Deployment, s.ID())
			if got := w.finish(s).Text(); got != "end" || len(results) != rounds {
				t.Errorf("session %d: answer %q, %d results", i, got, len(results))
			}
		}
		if lost() < sessions*rounds/2 || direct() < sessions*rounds/2 || runs.Load() > 2*sessions*rounds {
			t.Errorf("%d messages were lost, %d reports were direct, %d calls ran", lost(), direct(), runs.Load())
		}
		worker.Drain(t)
		second.Drain(t)
	})
}

// Its question is stored, and the approved call is sent again.
func TestACallThatWasSentToAWorkerMayAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPausing(t)
		w1 := p.hire("w1", content.ReadOnly, 8, func(c *worker.Config) { c.Permissions = asking{} })
		n, s := p.node("n1"), p.Start("s", twoPauses)
		p.submit(s, "go")
		for range 2 {
			<-time.After(time.Second)
			if n := len(s.PendingApprovals()); n != 1 || len(p.began) > 0 {
				t.Fatalf("%d approvals are pending, %d calls have begun", n, len(p.began))
			}
			natstest.Must(t, s.ResolveApproval(p.Ctx, session.Decision{Approve: true}))
		}
		if by := <-p.began; by != "w1" {
			t.Errorf("%s began it", by)
		}
		p.ends(s, "by w1", 1)
		w1.Drain(t)
		n.Drain(t)
	})
}

func TestACancelReachesTheWorkerThatACallWasSentTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPausing(t)
		n, w1, s := p.inLongCall(content.ReadOnly)
		if err := s.Cancel(p.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if err := <-p.stopped; !errors.Is(err, tool.ErrCancelled) {
			t.Errorf("stopped: %v", err)
		}
		p.Until("s", events.KindTurnFinished)
		p.Records("s")
		w1.Drain(t)
		n.Drain(t)
	})
}

// A worker with one slot waits for the queue, and a limit of a queue's concurrent calls counts only what is on the queue.
func TestCallsGoToTheQueueIfNoWorkerMayTakeThemDirectly(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ slots, limit int }{"one slot": {slots: 1}, "a limited queue": {slots: 8, limit: 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPausing(t)
				if tt.limit > 0 {
					_, err := p.Connect().RequestWithContext(p.Ctx, "$JS.API.CONSUMER.DELETE.TURNLOG_TASKS.q_"+turnlogtest.Queue, nil)
					natstest.Must(t, err)
					natstest.Must(t, admin.Of(p.Cell).EnsureQueue(p.Ctx, admin.QueueConfig{Name: turnlogtest.Queue, Concurrency: tt.limit}))
				}
				w1, n := p.hire("w1", content.ReadOnly, tt.slots), p.node("n1")
				s := p.Start("s", twoPauses)
				p.submit(s, "go")
				<-p.began
				<-time.After(time.Minute)
				p.ends(s, "by w1", 2)
				w1.Drain(t)
				n.Drain(t)
			})
		})
	}
}

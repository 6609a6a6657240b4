package actor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// The tool declares that its calls may run twice.
func TestALostCallRunsElsewhereAfterItsLease(t *testing.T) {
	t.Parallel()
	for _, e := range []content.Effects{content.ReadOnly, content.Idempotent} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := w.workerGroup(e)
			defer c.Drain()
			n := w.node("n1")
			s := w.Start("s", oneKillable)
			w.submit(s, "go")
			c.Crash(<-c.tool.began)
			crashed := time.Now()
			c.hire("second")
			if name := <-c.tool.began; name != "second" {
				t.Errorf("run by %s", name)
			}
			if took := time.Since(crashed); took < 20*time.Second || took > 40*time.Second {
				t.Errorf("%s: it ran again after %v, want the lease of 30 s", e, took)
			}
			close(c.tool.answer)
			if got := w.finish(s); got.Text() != "by second" {
				t.Errorf("answer = %q", got.Text())
			}
			w.Records("s")
			n.Drain(t)
		})
	}
}

// The session's configuration asks for it. A denial leaves no dead letter, and an approval starts
// the next attempt.
func TestAPersonIsAskedAboutALostCall(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := w.workerGroup(content.Once)
			defer c.Drain()
			n := w.node("n1")
			s := w.startWith("s", oneKillable, func(c *events.Config) { c.Retry.AskLost = true })
			w.submit(s, "go")
			c.Crash(<-c.tool.began)
			c.hire("second")
			step, err := s.Next(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			ask, ok := step.(*session.ApprovalRequest)
			if !ok || ask.RequestKind != "tool.retry" {
				t.Fatalf("Next = %+v, want to be asked", step)
			}
			close(c.tool.answer)
			decide, want := ask.Deny, []string{"denied"}
			if yes {
				decide, want = ask.Approve, []string{"ok"}
			}
			if err := decide(w.Ctx); err != nil {
				t.Fatal(err)
			}
			if yes {
				<-c.tool.began
			}
			w.finish(s)
			if got := w.results("s"); !slices.Equal(got, want) {
				t.Errorf("results %v, want %v", got, want)
			}
			if got := w.dead(); len(got) != 0 {
				t.Errorf("dead letters in %v", got)
			}
			w.Records("s")
			n.Drain(t)
		})
	}
}

// echoWorker starts a worker of the tool echo.
func (w *world) echoWorker(name string, e content.Effects) *turnlogtest.Process {
	w.T.Helper()
	echo, err := tool.Func("echo", "Answers.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return in.Text, nil
	}, tool.WithSpec(func(s *tool.Spec) { s.Effects = e }))
	if err != nil {
		w.T.Fatal(err)
	}
	return w.Worker(name, worker.Config{DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool { return []tool.Tool{echo} })
}

// TestACallWaitsForAWorkerThatRestarts has the only worker of a tool stop before or during a model
// call that uses the tool.
func TestACallWaitsForAWorkerThatRestarts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		thinks, away time.Duration
		want         string
	}{
		{0, 40 * time.Second, "hi"},
		{0, 3 * time.Minute, "Tool not found"}, // the model was not shown the tool
		{3 * time.Minute, 200 * time.Second, "hi"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			first := w.echoWorker("one", content.Once)
			n := w.node("n1")
			s := w.Start("s", "replies:\n  - text: ok\n  - calls: [{name: echo, input: {text: hi}}]\n    delay: "+tc.thinks.String()+"\n  - text: ok\n")
			w.submit(s, "one")
			w.finish(s)
			if tc.thinks > 0 {
				w.submit(s, "two")
			}
			first.Drain(t)
			<-time.After(tc.away - 10*time.Second)
			if tc.thinks == 0 {
				w.submit(s, "two")
			}
			<-time.After(10 * time.Second)
			second := w.echoWorker("two", content.Once)
			w.finish(s)
			results := turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s")
			if len(results) != 1 || !strings.Contains(results[0].Result.Text(), tc.want) {
				t.Errorf("a worker was away for %v, the model thought for %v: results %+v, want %q", tc.away, tc.thinks, results, tc.want)
			}
			w.Records("s")
			second.Drain(t)
			n.Drain(t)
		})
	}
}

// TestACallThatNoWorkerTakesIsLost has the only worker of a tool stop for good. Followers of the
// session see that the call waits.
func TestACallThatNoWorkerTakesIsLost(t *testing.T) {
	t.Parallel()
	for _, e := range []content.Effects{content.ReadOnly, content.Once} {
		for _, route := range []content.Route{content.Foreground, content.Background} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := w.echoWorker("one", e)
				n := w.node("n1")
				s := w.startWith("s", "replies:\n  - text: ok\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: ok\n    repeat: true\n",
					func(c *events.Config) { c.Routes = []events.RouteRule{{Tool: "echo", Route: route}} })
				live, err := w.Cell.Live().Subscribe(w.Ctx, "s")
				if err != nil {
					t.Fatal(err)
				}
				var heard []string
				go func() {
					for _, ev := range live {
						if p, ok := ev.(events.ToolProgress); ok {
							heard = append(heard, p.Text)
						}
					}
				}()
				w.submit(s, "one")
				w.finish(s)
				first.Drain(t)
				began := time.Now()
				w.submit(s, "two")
				w.Until("s", events.KindToolAttemptLost)
				if took := time.Since(began); took < time.Minute || took > 65*time.Second {
					t.Errorf("%s, %s: lost after %v, want a minute", e, route, took)
				}
				w.finish(s)
				want := map[content.Route]string{content.Foreground: "unknown", content.Background: "unknown late"}[route]
				if got := w.results("s"); !slices.Equal(got, []string{want}) {
					t.Errorf("%s, %s: results %v, want %s", e, route, got, want)
				}
				if got := w.dead(); !slices.Equal(got, []content.SessionID{"s"}) {
					t.Errorf("%s, %s: dead letters in %v", e, route, got)
				}
				if len(heard) != 6 || !strings.HasPrefix(heard[0], "waits for a worker of queue "+turnlogtest.Queue+", for another 5") {
					t.Errorf("%s, %s: heard %q", e, route, heard)
				}
				w.Records("s")
				n.Drain(t)
			})
		}
	}
}

// TestACallThatADrainingWorkerRunsIsNotLost has the worker take more time to stop than calls wait for one.
func TestACallThatADrainingWorkerRunsIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := killable{effects: content.Once, began: make(chan string), answer: make(chan struct{}), worker: "w"}
		p := w.Worker("w", worker.Config{DrainTimeout: time.Hour}, func(*nats.Conn) []tool.Tool { return []tool.Tool{c} })
		n := w.node("n1")
		s := w.Start("s", oneKillable)
		w.submit(s, "go")
		<-c.began
		time.AfterFunc(100*time.Second, func() { close(c.answer) })
		p.Drain(t)
		if got := w.finish(s); got.Text() != "by w" {
			t.Errorf("answer = %q", got.Text())
		}
		w.Records("s")
		n.Drain(t)
	})
}

// The call takes ten minutes on a lease of 30 s, while another worker waits for tasks.
func TestHeartbeatsKeepTheLeaseOfALongCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		runs := 0
		long, err := tool.Func("killable", "Takes long.", func(ctx context.Context, _ struct{}) (string, error) {
			runs++
			select {
			case <-time.After(10 * time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}, tool.WithSpec(func(s *tool.Spec) { s.Timeout = time.Hour }))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"one", "two"} {
			w.Worker(name, worker.Config{DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool { return []tool.Tool{long} })
		}
		n := w.node("n1")
		s := w.Start("s", oneKillable)
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != "done" {
			t.Errorf("answer = %q", got.Text())
		}
		if lost := turnlogtest.Facts[events.ToolAttemptLost](w.Deployment, "s"); runs != 1 || len(lost) != 0 {
			t.Errorf("%d runs, lost: %v", runs, lost)
		}
		w.Records("s")
		n.Drain(t)
	})
}

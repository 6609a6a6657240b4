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
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// The tool declares that its calls may run twice.
func TestALostCallRunsElsewhereAfterItsLease(t *testing.T) {
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

// TestACallWaitsForAWorkerThatRestarts has the only worker of a tool leave before a model call that
// uses it.
func TestACallWaitsForAWorkerThatRestarts(t *testing.T) {
	t.Parallel()
	for away, want := range map[time.Duration]string{40 * time.Second: "hi", 3 * time.Minute: "Tool not found"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			work := func(name string) *celltest.Process {
				echo, err := tool.Func("echo", "Answers.", func(_ context.Context, in struct {
					Text string `json:"text"`
				},
				) (string, error) {
					return in.Text, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return w.Worker(name, worker.Config{DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool { return []tool.Tool{echo} })
			}
			first := work("one")
			n := w.node("n1")
			s := w.Start("s", "replies:\n  - text: ok\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: ok\n")
			w.submit(s, "one")
			w.finish(s)
			first.Drain(t)
			<-time.After(away - 10*time.Second)
			w.submit(s, "two")
			<-time.After(10 * time.Second)
			second := work("two")
			w.finish(s)
			for _, r := range celltest.Facts[events.ToolResultReceived](w.World, "s") {
				if !strings.Contains(r.Result.Text(), want) {
					t.Errorf("a worker was away for %v: the result is %q, want %q", away, r.Result.Text(), want)
				}
			}
			second.Drain(t)
			n.Drain(t)
		})
	}
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
		if lost := celltest.Facts[events.ToolAttemptLost](w.World, "s"); runs != 1 || len(lost) != 0 {
			t.Errorf("%d runs, lost: %v", runs, lost)
		}
		w.Records("s")
		n.Drain(t)
	})
}

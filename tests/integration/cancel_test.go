package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// TestACancelReachesTheToolsContext cancels a turn, and a call, whose tool runs on another
// connection. BenchmarkCancel measures how long that takes.
func TestACancelReachesTheToolsContext(t *testing.T) {
	c := newCancels(t)
	for name, cancel := range cancels {
		t.Run(name, func(t *testing.T) { c.measure(t, cancel) })
	}
}

// BenchmarkCancel measures from the command to the end of the tool's context, over TCP
// with streams on disk. Besides the worker's part, that includes one journal entry.
func BenchmarkCancel(b *testing.B) {
	for name, cancel := range cancels {
		b.Run(name, func(b *testing.B) {
			c := newCancels(b)
			var took []time.Duration
			for b.Loop() {
				took = append(took, c.measure(b, cancel))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "ms/median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "ms/p99")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1e3, "ms/max")
		})
	}
}

// cancels are the ways to cancel a running call.
var cancels = map[string]func(context.Context, *session.Session) error{
	"turn": func(ctx context.Context, s *session.Session) error { return s.Cancel(ctx, "enough") },
	"call": func(ctx context.Context, s *session.Session) error {
		return s.Calls().Cancel(ctx, "call_1_1", "enough")
	},
}

// deploymentOfCancels is a deployment whose only tool waits until it is canceled.
type deploymentOfCancels struct {
	*turnlogtest.Deployment
	began    chan struct{}
	ended    chan time.Time
	sessions int
}

func newCancels(tb testing.TB) *deploymentOfCancels {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	srv, err := embedded.Start(ctx, embedded.WithListener("127.0.0.1:0"), embedded.WithStore(tb.TempDir()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(srv.Close)
	queues := admin.Config{Queues: []admin.QueueConfig{{Name: turnlogtest.Queue}}}
	c := &deploymentOfCancels{
		Deployment: turnlogtest.On(ctx, tb, overTCP(srv.ClientURL()), queues),
		began:      make(chan struct{}, 1),
		ended:      make(chan time.Time, 1),
	}
	hands := c.Worker("worker", worker.Config{Slots: 1}, func(*nats.Conn) []tool.Tool { return []tool.Tool{c} })
	node := c.Node(actor.Config{Name: "node"}) // after the worker, so that the first model call shows its tool
	tb.Cleanup(func() { node.Drain(tb) })
	tb.Cleanup(func() { hands.Drain(tb) })
	return c
}

// overTCP connects to a server over TCP, as another process would.
type overTCP string

func (url overTCP) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(string(url), opts...)
}

func (*deploymentOfCancels) Spec() tool.Spec {
	return tool.Spec{Name: "wait", Timeout: time.Minute}
}

func (c *deploymentOfCancels) Call(ctx context.Context, _ tool.Call) (tool.Output, error) {
	c.began <- struct{}{}
	<-ctx.Done()
	c.ended <- time.Now()
	return tool.Output{}, context.Cause(ctx)
}

// measure cancels a running call and returns how long it took the tool to notice.
func (c *deploymentOfCancels) measure(tb testing.TB, cancel func(context.Context, *session.Session) error) time.Duration {
	tb.Helper()
	c.sessions++
	id := content.SessionID(fmt.Sprint("s", c.sessions))
	s := c.Start(id, `{"replies":[{"calls":[{"name":"wait","input":{}}]},{"text":"done"}]}`)
	ctx, stop := context.WithTimeout(c.Ctx, patience)
	defer stop()
	if err := s.Send(ctx, "", content.UserText("go")); err != nil {
		tb.Fatal(err)
	}
	await(ctx, tb, c.began)
	asked := time.Now()
	if err := cancel(ctx, s); err != nil {
		tb.Fatal(err)
	}
	took := await(ctx, tb, c.ended).Sub(asked)
	untilFinished(ctx, tb, s)
	return took
}

func untilFinished(ctx context.Context, tb testing.TB, s *session.Session) {
	tb.Helper()
	for {
		step, err := s.Next(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		if _, ok := step.(*session.Finished); ok {
			return
		}
	}
}

func await[T any](ctx context.Context, tb testing.TB, from <-chan T) (got T) {
	tb.Helper()
	select {
	case got = <-from:
	case <-ctx.Done():
		tb.Fatal(ctx.Err())
	}
	return got
}

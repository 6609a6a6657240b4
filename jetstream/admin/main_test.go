package admin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func startServer(tb testing.TB, opts ...embedded.Option) *embedded.Server {
	tb.Helper()
	return natstest.Start(tb, opts...)
}

func connect(tb testing.TB, s *embedded.Server, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return natstest.Connect(tb, s, opts...)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

func within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	return natstest.Within(tb, d)
}

func noise(n int, seed uint64) []byte { return natstest.Noise(n, seed) }

func openCell(tb testing.TB, nc *nats.Conn) *Cell {
	tb.Helper()
	return openNamed(tb, nc, "")
}

func openNamed(tb testing.TB, nc *nats.Conn, namespace string) *Cell {
	tb.Helper()
	c, err := jetstream.Open(nc, namespace)
	must(tb, err)
	return Of(c)
}

// provision opens the default cell and provisions it in memory.
func provision(tb testing.TB, nc *nats.Conn, queues ...QueueConfig) *Cell {
	tb.Helper()
	c := openCell(tb, nc)
	must(tb, c.Provision(tb.Context(), Config{Memory: true, Queues: queues}))
	return c
}

// inBubble runs a test in virtual time with a provisioned cell on a server of its own.
func inBubble(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, provision(t, connect(t, startServer(t)))) })
}

// inBareBubble is inBubble with a cell that is not provisioned.
func inBareBubble(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, openCell(t, connect(t, startServer(t)))) })
}

func jsOf(tb testing.TB, c *Cell) natsjs.JetStream {
	tb.Helper()
	js, err := natsjs.New(c.nc)
	must(tb, err)
	return js
}

// lagging makes the next direct read of a stream return nothing, as from a lagging replica.
func lagging(t *testing.T, c *Cell, name string) {
	t.Helper()
	stream, err := jsOf(t, c).Stream(t.Context(), name)
	must(t, err)
	cfg := stream.CachedInfo().Config
	direct := func(is bool) {
		cfg.AllowDirect = is
		if _, err := jsOf(t, c).UpdateStream(t.Context(), cfg); err != nil {
			t.Error(err)
		}
	}
	direct(false)
	var sub *nats.Subscription
	sub, err = c.nc.Subscribe(api.DirectGet+name, func(msg *nats.Msg) {
		_ = sub.Unsubscribe()
		direct(true)
		_ = c.nc.PublishMsg(&nats.Msg{Subject: msg.Reply, Header: nats.Header{"Status": {"404"}}})
	})
	must(t, err)
	must(t, c.nc.FlushWithContext(within(t, time.Minute)))
}

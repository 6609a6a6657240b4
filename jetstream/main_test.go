package jetstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
)

func TestMain(m *testing.M) {
	parallel.Tests(8) // tests of clusters mostly wait
	natstest.Main(m)
}

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

// queueOf describes a task queue; a lease of 0 is the default.
type queueOf struct {
	name        string
	lease       time.Duration
	concurrency int
}

// provision opens the default cell and creates its streams in memory.
func provision(tb testing.TB, nc *nats.Conn, queues ...queueOf) *Cell {
	tb.Helper()
	c := openCell(tb, nc)
	create(tb, c, jetstream.MemoryStorage, 1, queues...)
	return c
}

// create creates the streams of a cell. It cannot use package admin, which imports this one.
func create(tb testing.TB, c *Cell, storage jetstream.StorageType, replicas int, queues ...queueOf) {
	tb.Helper()
	js := jsOf(tb, c)
	for _, s := range c.names.Streams() {
		s.Config.Storage, s.Config.Replicas = storage, replicas
		stream, err := js.CreateStream(tb.Context(), s.Config)
		must(tb, err)
		for _, consumer := range s.Consumers {
			_, err := stream.CreateConsumer(tb.Context(), consumer)
			must(tb, err)
		}
	}
	for _, q := range queues {
		createQueue(tb, c, q)
	}
}

func createQueue(tb testing.TB, c *Cell, q queueOf) {
	tb.Helper()
	cfg := c.names.Queue(q.name)
	if q.lease > 0 {
		cfg.AckWait = q.lease
	}
	if q.concurrency > 0 {
		cfg.MaxAckPending = q.concurrency
	}
	_, err := jsOf(tb, c).CreateConsumer(tb.Context(), c.names.TasksStream(), cfg)
	must(tb, err)
}

func jsOf(tb testing.TB, c *Cell) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(c.nc, jetstream.WithDefaultTimeout(time.Minute)) // a loaded cluster takes long to create a stream
	must(tb, err)
	return js
}

func openCell(tb testing.TB, nc *nats.Conn) *Cell {
	tb.Helper()
	c, err := Open(nc, "")
	must(tb, err)
	return c
}

// newCell returns a provisioned cell on a server of its own.
func newCell(tb testing.TB, queues ...queueOf) *Cell {
	tb.Helper()
	return provision(tb, connect(tb, startServer(tb)), queues...)
}

// reconnect makes a connection of a bubble reconnect. Its test must not be parallel: then the client flushes with a
// timer from a pool of the process, and while others reconnect that may be a timer of another bubble, which ends the
// process.
func reconnect(t *testing.T, nc *nats.Conn) {
	t.Helper()
	must(t, nc.ForceReconnect())
}

// inBubble runs a test in virtual time with a provisioned cell on a server of its own.
func inBubble(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCell(t)) })
}

// overWeeks is inBubble for a test of long times, most of which its function pass lets go by without a server.
func overWeeks(t *testing.T, test func(t *testing.T, c *Cell, pass func(time.Duration) *Cell)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, embedded.WithStore(dir))
		c := openCell(t, connect(t, s))
		create(t, c, jetstream.FileStorage, 1)
		test(t, c, func(d time.Duration) *Cell {
			s = natstest.PassWithout(t, s, d, embedded.WithStore(dir))
			return openCell(t, connect(t, s))
		})
	})
}

// inBareBubble is inBubble with a cell that is not provisioned.
func inBareBubble(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, openCell(t, connect(t, startServer(t)))) })
}

func onDisk(tb testing.TB) []embedded.Option {
	return onDiskAt(tb.TempDir())
}

func onDiskAt(dir string) []embedded.Option {
	return []embedded.Option{embedded.WithStore(dir), embedded.WithListener("127.0.0.1:0")}
}

func connectTCP(tb testing.TB, s *embedded.Server, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return natstest.ConnectTCP(tb, s, opts...)
}

// cellAt opens the cell with a namespace.
func cellAt(tb testing.TB, nc *nats.Conn, namespace string) *Cell {
	tb.Helper()
	c, err := Open(nc, namespace)
	must(tb, err)
	return c
}

// putRaw stores bytes under the subject of a key.
func putRaw(tb testing.TB, c *Cell, subject string, value []byte) {
	tb.Helper()
	_, err := c.api.Publish(tb.Context(), &nats.Msg{Subject: subject, Data: value})
	must(tb, err)
}

package jetstream

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
)

func TestMain(m *testing.M) {
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// startServer starts a server in memory, inside the bubble if the test is in one.
func startServer(t testing.TB, opts ...embedded.Option) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, s *embedded.Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := s.Connect(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// provision opens the default cell over a connection and provisions it in memory.
func provision(t testing.TB, nc *nats.Conn, queues ...QueueConfig) *Cell {
	t.Helper()
	c := openCell(t, nc)
	if err := c.Provision(t.Context(), Config{Memory: true, Queues: queues}); err != nil {
		t.Fatal(err)
	}
	return c
}

func openCell(t testing.TB, nc *nats.Conn) *Cell {
	t.Helper()
	c, err := Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newCell returns a provisioned cell on a server of its own.
func newCell(t testing.TB, queues ...QueueConfig) *Cell {
	t.Helper()
	return provision(t, connect(t, startServer(t)), queues...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within bounds a wait; the clock is the bubble's if the test is in one.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

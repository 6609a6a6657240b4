// Package celltest sets up a cell for tests: a server, nodes, workers and a client in
// one process, any of which can be cut off as a crash would.
//
// The one idea: in a bubble of testing/synctest a whole deployment lives without
// sockets and in virtual time, so a test says what dies when, and an hour costs
// nothing. Everything ends with the test: what a world starts it stops and waits for,
// and a goroutine that is left behind fails the bubble.
//
// TestMain of whoever uses it is [Main]. Nothing here judges; the tests do.
package celltest

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
)

// Main runs the tests of a package whose bubbles hold servers.
func Main(m *testing.M) {
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// Connector is a server or a cluster.
type Connector interface {
	Connect(opts ...nats.Option) (*nats.Conn, error)
}

// World is a cell and what lives in it.
type World struct {
	T      testing.TB
	Ctx    context.Context //nolint:containedctx // the test's
	Server Connector
	Cell   *jetstream.Cell
	Client *client.Client
	Conn   *nats.Conn // the client's
}

// Queue is the queue of tasks that worlds have.
const Queue = "q"

// New returns a world in the bubble that the test runs in, which ends with ctx. Its
// queue has the lease, or the usual one if that is zero.
func New(ctx context.Context, t testing.TB, lease time.Duration) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		synctest.Wait() // a request that it still works on could not end while it closes, in virtual time
		srv.Close()
	})
	return On(ctx, t, srv, jetstream.Config{Memory: true, Queues: []jetstream.QueueConfig{{Name: Queue, AckWait: lease}}})
}

// On returns a world on a server that is there, with a cell like that.
func On(ctx context.Context, t testing.TB, srv Connector, cfg jetstream.Config) *World {
	t.Helper()
	w := &World{T: t, Ctx: ctx, Server: srv}
	w.Cell = w.Open(w.Connect())
	if err := w.Cell.Provision(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	w.Conn = w.Connect()
	c, err := client.Open(w.Conn, "")
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	return w
}

// Connect returns a connection that ends with the test at the latest.
func (w *World) Connect() *nats.Conn {
	w.T.Helper()
	nc, err := w.Server.Connect()
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(nc.Close)
	return nc
}

// Open returns the cell as it is seen over a connection.
func (w *World) Open(nc *nats.Conn) *jetstream.Cell {
	w.T.Helper()
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		w.T.Fatal(err)
	}
	return cell
}

// Start opens a session whose model follows a script.
func (w *World) Start(id content.SessionID, script string, change ...func(*client.Options)) *client.Session {
	w.T.Helper()
	o := client.Options{ID: id, Config: events.Config{Model: "scripted:test", ModelData: []byte(script)}}
	for _, c := range change {
		c(&o)
	}
	s, err := w.Client.Start(w.Ctx, o)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(s.Close)
	return s
}

// Until follows a journal up to an event of the kind.
func (w *World) Until(id content.SessionID, k events.Kind) {
	w.T.Helper()
	for rec, err := range w.Cell.Journal().Follow(w.Ctx, id, 0) {
		if err != nil {
			w.T.Fatal(err)
		}
		if slices.Contains(rec.Entry.Kinds(), k) {
			return
		}
	}
}

// Records reads a journal, and has it audited.
func (w *World) Records(id content.SessionID) []journal.Record {
	w.T.Helper()
	var out []journal.Record
	for rec, err := range w.Cell.Journal().Read(w.Ctx, id, 0) {
		if err != nil {
			w.T.Fatal(err)
		}
		out = append(out, rec)
	}
	if bad := audit.Check(out); len(bad) > 0 {
		w.T.Errorf("audit of %s: %v", id, bad)
	}
	return out
}

// Facts are the events of one type in a journal, which it has audited.
func Facts[E events.Event](w *World, id content.SessionID) (out []E) {
	w.T.Helper()
	for _, rec := range w.Records(id) {
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(E); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

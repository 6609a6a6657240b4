// Package celltest sets up a deployment for tests: a server, nodes, workers and a client
// in one process, any of which can be killed.
//
// In a bubble of testing/synctest a whole deployment lives without sockets and in virtual
// time, so a test decides what dies when, and an hour takes milliseconds. Everything ends
// with the test: a world stops what it starts and waits for it, and a leaked goroutine
// fails the bubble.
//
// A package that uses it has [Main] as its TestMain.
package celltest

import (
	"context"
	"os"
	"runtime/debug"
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
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
)

// Main runs the tests of a package whose bubbles hold servers.
func Main(m *testing.M) {
	debug.SetGCPercent(400) // servers are short-lived, so fewer collections save a quarter of the time
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// Connector is a server or a cluster.
type Connector interface {
	// Connect returns a new connection.
	Connect(opts ...nats.Option) (*nats.Conn, error)
}

// World is a cell and its processes.
type World struct {
	T      testing.TB
	Ctx    context.Context //nolint:containedctx // the test's
	Server Connector
	Cell   *jetstream.Cell
	Client *client.Client
	Conn   *nats.Conn // the client's
}

// Queue is the task queue of every world.
const Queue = "q"

// New returns a world in the test's bubble, which ends with ctx. Zero means the default
// lease of its queue.
func New(ctx context.Context, t testing.TB, lease time.Duration) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		synctest.Wait() // in virtual time, a pending request could not finish while the server closes
		srv.Close()
	})
	return On(ctx, t, srv, admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: Queue, AckWait: lease}}})
}

// On returns a world on an existing server, with a cell of that configuration.
func On(ctx context.Context, t testing.TB, srv Connector, cfg admin.Config) *World {
	t.Helper()
	w := &World{T: t, Ctx: ctx, Server: srv}
	w.Cell = w.Open(w.Connect())
	if err := admin.Of(w.Cell).Provision(ctx, cfg); err != nil {
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

// Connect returns a connection that is closed at the end of the test.
func (w *World) Connect() *nats.Conn {
	w.T.Helper()
	nc, err := w.Server.Connect()
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(nc.Close)
	return nc
}

// Open opens the cell over a connection.
func (w *World) Open(nc *nats.Conn) *jetstream.Cell {
	w.T.Helper()
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		w.T.Fatal(err)
	}
	return cell
}

// Start opens a session whose model follows a script.
func (w *World) Start(id content.SessionID, script string, change ...func(*client.Options)) *session.Session {
	w.T.Helper()
	o := client.Options{ID: id, Config: events.Config{Model: "scripted:test", ModelData: []byte(script)}}
	for _, c := range change {
		c(&o)
	}
	s, err := w.Client.Start(w.Ctx, o)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = s.Close(context.WithoutCancel(w.T.Context())) })
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
	w.T.Fatalf("%s has no %s: %v", id, k, context.Cause(w.Ctx))
}

// Records returns a journal's records after an audit.
func (w *World) Records(id content.SessionID) []journal.Record {
	w.T.Helper()
	var out []journal.Record
	c := audit.NewChecker()
	for rec, err := range w.Cell.Journal().Read(w.Ctx, id, 0) {
		if err != nil {
			w.T.Fatal(err)
		}
		c.Add(rec)
		out = append(out, rec)
	}
	if bad := c.Verdict().Faults; len(bad) > 0 {
		w.T.Errorf("audit of %s: %v", id, bad)
	}
	return out
}

// Facts returns the events of one type in a journal, after an audit.
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

package turnlogtest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
)

// Connector is a server or a cluster.
type Connector interface {
	// Connect returns a new connection.
	Connect(opts ...nats.Option) (*nats.Conn, error)
}

// Deployment is a server with the streams of a deployment, its nodes and workers, and a client.
// It is safe for concurrent use.
type Deployment struct {
	T      testing.TB
	Ctx    context.Context //nolint:containedctx // the test's
	Server Connector
	Cell   *jetstream.Cell
	Client *client.Client
	Conn   *nats.Conn // the client's

	opts    options
	bubble  bool         // it runs in virtual time
	appends atomic.Int64 // entries that nodes appended

	mu       sync.Mutex
	node     *Process // the current node that New started; nil: none
	worker   *Process
	sessions []*Session // opened by the test, in order
}

// Queue is the task queue of every deployment.
const Queue = "q"

// New returns a running deployment that ends with the test: a server in memory, a node, and a worker if
// there are Tools. A node or a worker that is killed is replaced by another one.
//
// In a bubble of testing/synctest it runs in virtual time. Use [Bubble], or [Main] as TestMain.
func New(t testing.TB, opts ...Option) *Deployment {
	t.Helper()
	d := Empty(t.Context(), t, opts...)
	d.run()
	return d
}

// Empty returns a deployment without a node and a worker. A test starts them with [Deployment.Node] and
// [Deployment.Worker]. It ends with ctx, or with the test.
func Empty(ctx context.Context, t testing.TB, opts ...Option) *Deployment {
	t.Helper()
	o := gather(opts)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	srv, err := o.start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if bubbled() {
			synctest.Wait() // in virtual time, a pending request could not finish while the server closes
		}
		srv.Close()
	})
	cfg := admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: Queue, AckWait: o.lease}}}
	if o.cluster {
		cfg.Replicas = cluster.Size
	}
	return on(ctx, t, srv, cfg, o)
}

// server is what start starts.
type server interface {
	Connector
	Close()
}

func (o options) start(ctx context.Context) (server, error) {
	if o.cluster {
		return cluster.Start(ctx, "")
	}
	return embedded.Start(ctx)
}

// On returns a deployment without a node and a worker on an existing server. cfg configures its
// streams.
func On(ctx context.Context, t testing.TB, srv Connector, cfg admin.Config) *Deployment {
	t.Helper()
	return on(ctx, t, srv, cfg, options{})
}

func on(ctx context.Context, t testing.TB, srv Connector, cfg admin.Config, o options) *Deployment {
	t.Helper()
	d := &Deployment{T: t, Ctx: ctx, Server: srv, opts: o, bubble: bubbled()}
	d.Cell = d.Open(d.Connect())
	if err := admin.Of(d.Cell).Provision(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	d.Conn = d.Connect()
	c, err := client.Open(d.Conn, "", client.WithSealKeys(o.seals))
	if err != nil {
		t.Fatal(err)
	}
	d.Client = c
	return d
}

// Connect returns a connection that is closed at the end of the test.
func (d *Deployment) Connect() *nats.Conn {
	d.T.Helper()
	nc, err := d.Server.Connect()
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(nc.Close)
	return nc
}

// Open opens the cell over a connection.
func (d *Deployment) Open(nc *nats.Conn) *jetstream.Cell {
	d.T.Helper()
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		d.T.Fatal(err)
	}
	return cell.Sealing(d.opts.seals)
}

// Script opens a session whose model follows a script (package model/scripted). change can set other
// options.
func (d *Deployment) Script(script string, change ...func(*client.Options)) *Session {
	d.T.Helper()
	s := &Session{Session: d.Start("", script, change...), d: d}
	d.mu.Lock()
	d.sessions = append(d.sessions, s)
	d.mu.Unlock()
	return s
}

// Start is like Script, for a test that chooses the session's ID and uses the session directly.
func (d *Deployment) Start(id content.SessionID, script string, change ...func(*client.Options)) *session.Session {
	d.T.Helper()
	o := client.Options{ID: id, Config: events.Config{Model: "scripted:test", ModelData: []byte(script)}}
	for _, c := range change {
		c(&o)
	}
	s, err := d.Client.Start(d.Ctx, o)
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() { _ = s.Close(context.WithoutCancel(d.T.Context())) })
	return s
}

// Until follows a journal up to an event of a kind.
func (d *Deployment) Until(id content.SessionID, k events.Kind) {
	d.T.Helper()
	for rec, err := range d.Cell.Journal().Follow(d.Ctx, id, 0) {
		if err != nil {
			d.T.Fatal(err)
		}
		if slices.Contains(rec.Entry.Kinds(), k) {
			return
		}
	}
	d.T.Fatalf("%s has no %s: %v", id, k, context.Cause(d.Ctx))
}

// Records returns a journal's records after an audit.
func (d *Deployment) Records(id content.SessionID) []journal.Record {
	d.T.Helper()
	var out []journal.Record
	c := audit.NewChecker()
	for rec, err := range d.Cell.Journal().Read(d.Ctx, id, 0) {
		if err != nil {
			d.T.Fatal(err)
		}
		c.Add(rec)
		out = append(out, rec)
	}
	if bad := c.Verdict().Faults; len(bad) > 0 {
		d.T.Errorf("audit of %s: %v", id, bad)
	}
	return out
}

// Facts returns the events of one type in a journal, after an audit.
func Facts[E events.Event](d *Deployment, id content.SessionID) (out []E) {
	d.T.Helper()
	for _, rec := range d.Records(id) {
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(E); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

// Advance lets time pass in a bubble, and then waits until every goroutine waits again.
func (d *Deployment) Advance(by time.Duration) {
	d.T.Helper()
	if !d.bubble {
		d.T.Fatal("Advance needs virtual time: run the test with turnlogtest.Bubble")
	}
	time.Sleep(by) //nolint:forbidigo // the time is virtual, and its passing is the point
	synctest.Wait()
}

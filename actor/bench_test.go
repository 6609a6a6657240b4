package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// rounds is a model that makes n tool calls, one per round.
type rounds int

func (rounds) Name() string                     { return "rounds" }
func (rounds) Capabilities() model.Capabilities { return model.Capabilities{Tools: true} }

func (n rounds) Call(_ context.Context, r model.Request, _ func(content.Delta)) (model.Reply, error) {
	if r.Round > int(n) {
		return model.Reply{Items: []content.Item{content.AssistantText("done")}}, nil
	}
	call := content.ToolCall{Name: "noop", Input: json.RawMessage(`{}`)}
	return model.Reply{Items: []content.Item{content.NewItem(content.Assistant, content.CallPart(call))}}, nil
}

// BenchmarkRoundTrip measures a durable tool round trip: two entries, a task, a result.
func BenchmarkRoundTrip(b *testing.B) {
	for _, sessions := range []int{1, 128} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkRoundTrip(b, sessions) })
	}
}

func benchmarkRoundTrip(b *testing.B, sessions int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	srv, err := embedded.Start(ctx, embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	cell := func() *jetstream.Cell {
		nc, err := srv.Connect()
		if err != nil {
			b.Fatal(err)
		}
		c, err := jetstream.Open(nc, "")
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	c := cell()
	if err := admin.Of(c).Provision(ctx, admin.Config{Queues: []admin.QueueConfig{{Name: "q"}}}); err != nil {
		b.Fatal(err)
	}
	wc := cell()
	if err := wc.Catalog().Advertise(ctx, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "noop"}}}); err != nil {
		b.Fatal(err)
	}
	q, err := wc.Queue(ctx, "q")
	if err != nil {
		b.Fatal(err)
	}
	var workers sync.WaitGroup
	for range sessions {
		workers.Go(func() {
			for {
				cl, err := q.Claim(ctx)
				if err != nil {
					return
				}
				x := cl.Task()
				_ = cl.Report(ctx, task.Report{
					Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Queue: x.Queue,
					Outcome: tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, "ok")},
				})
				_ = cl.Done(ctx)
			}
		})
	}
	n := max(b.N/sessions, 1)
	node, err := actor.NewNode(c, actor.Config{Policy: permission.AllowAll(), Idle: time.Minute, Models: func(string, []byte) (model.Model, error) { return rounds(n), nil }})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	nc, err := srv.Connect()
	if err != nil {
		b.Fatal(err)
	}
	cl, err := client.Open(nc, "")
	if err != nil {
		b.Fatal(err)
	}
	all := make([]*session.Session, sessions)
	for i := range all {
		if all[i], err = cl.Start(ctx, client.Options{ID: content.SessionID(fmt.Sprint("s", i)), Config: events.Config{Model: "rounds"}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	var running sync.WaitGroup
	for _, s := range all {
		running.Go(func() {
			if err := s.Send(ctx, "", content.UserText("go")); err != nil {
				b.Error(err)
				return
			}
			if _, err := s.Next(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(n*sessions)/b.Elapsed().Seconds(), "trips/s")
	for _, s := range all {
		_ = s.Close(b.Context())
	}
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	workers.Wait()
}

// BenchmarkHeldSession measures the cost of idle sessions that a node holds: the time to create them, their
// memory, and per second the CPU time of the process with its server, and messages.
func BenchmarkHeldSession(b *testing.B) {
	for _, sessions := range []int{500, 2_000, 20_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkHeldSession(b, sessions) })
	}
}

func benchmarkHeldSession(b *testing.B, sessions int) {
	const seconds = 24
	h := newHolder(b, sessions)
	node := h.node()
	before, began := memoryInUse(), time.Now()
	h.create()
	created := time.Since(began)
	messages := func() uint64 { return h.messages(node.conn) }
	of := float64(sessions * seconds)
	for b.Loop() {
		<-time.After(30 * time.Second) // until each driver has looked for commands again
		sent, used := messages(), cpuTime(b)
		<-time.After(seconds * time.Second)
		b.ReportMetric(float64(messages()-sent)/of, "messages/s")
		b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/of, "cpu-us/s")
	}
	b.ReportMetric(created.Seconds(), "s-to-create")
	b.ReportMetric(float64(memoryInUse()-before)/float64(sessions), "B/session")
}

// BenchmarkNodeDies measures how long it takes until another node drives all sessions of one whose connection
// breaks, and the time of the process with its server meanwhile.
func BenchmarkNodeDies(b *testing.B) {
	for _, sessions := range []int{500, 2_000, 20_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			h := newHolder(b, sessions)
			node := h.node()
			h.create()
			<-time.After(30 * time.Second) // until its lease replaces theirs
			for b.Loop() {
				other := h.node()
				<-time.After(5 * time.Second) // until it knows the first node
				began, used, sent := time.Now(), cpuTime(b), h.messages(other.conn)
				node.conn.Close()
				<-other.all
				b.ReportMetric(time.Since(began).Seconds(), "s-to-take-over")
				b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/float64(sessions), "cpu-us/session")
				b.ReportMetric(float64(h.messages(other.conn)-sent)/float64(sessions), "messages/session")
				node = other
			}
		})
	}
}

// holder is a cell with idle sessions, which its nodes never release.
type holder struct {
	b        testing.TB
	server   *embedded.Server
	client   *client.Client
	conn     *nats.Conn // of the client
	sessions int
	nodes    atomic.Int64
}

func newHolder(b testing.TB, sessions int) *holder {
	b.Helper()
	percent := debug.SetGCPercent(300) // as in the binaries
	b.Cleanup(func() { debug.SetGCPercent(percent) })
	srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	h := &holder{b: b, server: srv, sessions: sessions}
	c, nc := h.open()
	if err := admin.Of(c).Provision(b.Context(), admin.Config{}); err != nil {
		b.Fatal(err)
	}
	h.conn = nc
	if h.client, err = client.Open(nc, ""); err != nil {
		b.Fatal(err)
	}
	return h
}

func (h *holder) open() (*jetstream.Cell, *nats.Conn) {
	h.b.Helper()
	nc, err := h.server.Connect()
	if err != nil {
		h.b.Fatal(err)
	}
	h.b.Cleanup(nc.Close)
	c, err := jetstream.Open(nc, "")
	if err != nil {
		h.b.Fatal(err)
	}
	return c, nc
}

// holding is a node of a holder.
type holding struct {
	handled

	conn     *nats.Conn
	taken    atomic.Int64
	sessions int64
	all      chan struct{} // closed when it has taken all sessions
}

func (h *holding) EntryAppended(_ events.Entry, takeover bool, _ time.Duration) {
	if takeover && h.taken.Add(1) == h.sessions {
		close(h.all)
	}
}

// node starts a node.
func (h *holder) node() *holding {
	h.b.Helper()
	c, nc := h.open()
	out := &holding{conn: nc, sessions: int64(h.sessions), all: make(chan struct{})}
	node, err := actor.NewNode(c, actor.Config{
		Name: fmt.Sprint("n", h.nodes.Add(1)), Idle: time.Hour, Capacity: 2 * h.sessions, Metrics: out,
		Models: func(string, []byte) (model.Model, error) { return rounds(0), nil },
	})
	if err != nil {
		h.b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.b.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	h.b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			h.b.Error(err)
		}
	})
	<-node.Ready()
	return out
}

// create creates the sessions.
func (h *holder) create() {
	h.b.Helper()
	var creating errgroup.Group
	creating.SetLimit(64)
	for i := range h.sessions {
		creating.Go(func() error {
			s, err := h.client.Start(h.b.Context(), client.Options{ID: content.SessionID(fmt.Sprint("s", i)), Config: events.Config{Model: "rounds"}})
			if err == nil {
				err = s.Close(h.b.Context())
			}
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		h.b.Fatal(err)
	}
}

// messages counts those of the client and a node.
func (h *holder) messages(node *nats.Conn) uint64 {
	a, b := h.conn.Stats(), node.Stats()
	return a.InMsgs + a.OutMsgs + b.InMsgs + b.OutMsgs
}

// memoryInUse returns the bytes of the heap and the stacks, once garbage collections shrink no stack any more.
func memoryInUse() int64 {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.StackInuse { // a collection halves a stack
		runtime.GC()
		if runtime.ReadMemStats(&m); m.StackInuse >= before {
			return int64(m.HeapAlloc + m.StackInuse)
		}
	}
}

package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// child is the session of the first call of session s.
const child content.SessionID = "s-t1-r1-c1"

const delegating = `
replies:
  - calls: [{name: helper, input: {prompt: help}}]
  - text: "{{(index .Results 0).Text}}"
`

// shop is a deployment with workers that offer a sub-agent, and a tool for it.
type shop struct {
	*world
	script string
	change func(*events.Config)
	opts   []tool.Option
	echoes int
}

func newShop(t *testing.T, script string) *shop {
	t.Helper()
	s := &shop{world: newWorld(t), script: script}
	cfg := jetstream.Config{Memory: true, Queues: []jetstream.QueueConfig{{Name: "q", AckWait: 5 * time.Second}}}
	if err := s.cell.Provision(s.ctx, cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// offers puts a worker's tools into the catalog.
type offers struct {
	catalog *jetstream.Catalog
	name    string
}

func (o offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	return o.catalog.Advertise(ctx, jetstream.Offer{Worker: o.name, Queue: "q", Tools: tools})
}

func (o offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, o.name) }

// staff is a running worker with its client.
type staff struct {
	nc    *nats.Conn
	stop  context.CancelFunc
	ended chan error
	tends chan error
}

// tools are what a worker with a client has.
func (s *shop) tools(c *client.Client) []tool.Tool {
	s.t.Helper()
	o := client.Options{Config: events.Config{Model: "scripted:child", ModelData: []byte(s.script)}}
	if s.change != nil {
		s.change(&o.Config)
	}
	helper, err := c.Tool("helper", "Helps.", o, s.opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	echo, err := tool.Func("echo", "Echoes.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		s.echoes++
		return in.Text, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return []tool.Tool{helper, echo}
}

// offer puts tools into the catalog.
func (s *shop) offer(o offers, tools []tool.Tool) {
	s.t.Helper()
	specs := make([]tool.Spec, len(tools))
	for i, x := range tools {
		specs[i] = x.Spec()
	}
	if err := o.Advertise(s.ctx, specs); err != nil {
		s.t.Fatal(err)
	}
}

// work runs a worker, and what it runs beside it. The first comes before the node,
// which knows its tools then.
func (s *shop) work(name string) *staff {
	s.t.Helper()
	cell, nc := s.open()
	c, err := client.Open(nc, "", client.WithLogger(zaptest.NewLogger(s.t)))
	if err != nil {
		s.t.Fatal(err)
	}
	own := s.tools(c)
	o := offers{cell.Catalog(), name}
	s.offer(o, own)
	tools, err := tool.NewRegistry("own", own...)
	if err != nil {
		s.t.Fatal(err)
	}
	queue, err := cell.Queue(s.ctx, "q")
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Queue: queue, Tools: []tool.Source{tools}, Logger: zaptest.NewLogger(s.t), Offers: o, DrainTimeout: time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.ctx)
	f := &staff{nc: nc, stop: stop, ended: make(chan error, 1), tends: make(chan error, 1)}
	go func() { f.ended <- w.Run(ctx) }()
	go func() { f.tends <- c.Tend(ctx) }()
	return f
}

// leave ends the worker in good order.
func (f *staff) leave(t *testing.T) {
	t.Helper()
	f.stop()
	if err := errors.Join(<-f.ended, <-f.tends); err != nil {
		t.Errorf("worker: %v", err)
	}
}

// crash cuts the worker off.
func (f *staff) crash() {
	f.nc.Close()
	f.stop()
	_, _ = <-f.ended, <-f.tends
}

// begin starts the calling session with a turn.
func (s *shop) begin() *client.Session {
	s.t.Helper()
	x := s.start("s", delegating, false, nil)
	s.t.Cleanup(x.Close)
	if err := x.Submit(s.ctx, "", content.UserText("go")); err != nil {
		s.t.Fatal(err)
	}
	return x
}

// until follows a journal up to an event.
func (s *shop) until(id content.SessionID, k events.Kind) {
	s.t.Helper()
	for rec, err := range s.cell.Journal().Follow(s.ctx, id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if slices.Contains(rec.Entry.Kinds(), k) {
			return
		}
	}
}

// facts reads a journal and has it audited.
func facts[E events.Event](s *shop, id content.SessionID) (out []E) {
	s.t.Helper()
	var all []journal.Record
	for rec, err := range s.cell.Journal().Read(s.ctx, id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, rec)
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(E); ok {
				out = append(out, e)
			}
		}
	}
	if bad := audit.Check(all); len(bad) > 0 {
		s.t.Errorf("audit of %s: %v", id, bad)
	}
	return out
}

// result is what the calling session's only call came to.
func (s *shop) result() events.ToolResultReceived {
	s.t.Helper()
	all := facts[events.ToolResultReceived](s, "s")
	if len(all) != 1 {
		s.t.Fatalf("%d results, want one", len(all))
	}
	return all[0]
}

// ended waits for the end of the sub-agent's turn and says how it was.
func (s *shop) ended() content.FinishReason {
	s.t.Helper()
	s.until(child, events.KindTurnFinished)
	all := facts[events.TurnFinished](s, child)
	if len(all) != 1 {
		s.t.Fatalf("%d turns ended, want one", len(all))
	}
	return all[0].FinishReason
}

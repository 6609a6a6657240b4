package sim

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/torture"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/tickets"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

// defaultCells is how many seeds are tried unless the flag says otherwise.
const defaultCells = 2

var cells = flag.Uint64("sim.cells", defaultCells, "how many seeds to run with nodes and workers over JetStream")

// TestCellsSurviveRandomFaults runs sessions in a deployment whose nodes, workers and
// connections fail, and whose results are repeated or late.
func TestCellsSurviveRandomFaults(t *testing.T) {
	seen := tally{}
	first, count := *from, *cells
	if *oneSeed != 0 {
		first, count = *oneSeed, 1
	}
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			c := newCell(t, seed)
			c.live(t)
			for k, v := range c.seen {
				seen[k] += v
			}
		})
	}
	t.Logf("what was taken how often:\n%s", seen.table())
	if t.Failed() || *oneSeed != 0 || *from != 1 || *cells < defaultCells {
		return
	}
	for _, path := range []string{
		"cell: node_killed", "cell: node_drained", "cell: node_frozen", "cell: worker_killed", "cell: worker_frozen",
		"cell: connections_cut", "cell: connections_slowed", "cell: acks_swallowed", "cell: stream_rolled_back", "cell: hostile_sender",
		"cell: result reported twice", "cell: result reported late", "cell: result forged",
		"cell: tools in the nodes: true", "cell: tools in the nodes: false", "cell: hooks: true", "cell: hooks: false",
		"event: parked", "event: tool_detached", "event: tool_dispatched", "event: approval_resolved",
	} {
		if seen[path] == 0 {
			t.Errorf("no seed took this path: %s", path)
		}
	}
}

// deployed is a world whose sessions live in a cell.
type deployed struct {
	*world
	server *embedded.Server
	cell   *jetstream.Cell // directly connected
}

func newCell(t *testing.T, seed uint64) *deployed {
	t.Helper()
	c := &deployed{world: newWorld(t, seed, func(j journal.Journal) journal.Journal { return j })}
	c.deployed = true
	var err error
	if c.server, err = embedded.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc, err := c.server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		synctest.Wait() // in virtual time, a pending request could not finish while the server closes
		c.server.Close()
	})
	if c.cell, err = jetstream.Open(nc, ""); err != nil {
		t.Fatal(err)
	}
	c.store = c.cell.Journal()
	return c
}

// tail is how long late results, and tools that ignore the end of their context, may take.
const tail = 90 * time.Second

func (c *deployed) live(t *testing.T) {
	t.Helper()
	d := c.dice("cell")
	var tools []tool.Tool
	for _, own := range c.tools {
		tools = append(tools, tool.Wrap(own, c.echoing))
	}
	local := c.seed%2 == 0
	c.saw(fmt.Sprint("cell: tools in the nodes: ", local))
	r, err := torture.Run(t.Context(), torture.Config{
		Seed: c.seed, Duration: 30 * time.Second, Rest: 20 * time.Minute, Sessions: 2 + d.IntN(4), Nodes: 2, Workers: 2, Local: local,
		Server: c.server, Dir: t.TempDir(), Logger: zap.New(commandLog{zap.DebugLevel, c.world}),
		Workload: torture.Workload{
			Config: c.config, Node: c.node(), Tools: tools, Tail: tail,
			Worker: worker.Config{DrainTimeout: time.Minute},
		},
		OnFault: func(f torture.Fault) {
			c.saw("cell: " + string(f.Kind))
			c.note("cell", "%v", f)
		},
		OnCalm: func() { close(c.calm) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Found {
		c.wrong("%v", v)
	}
	var sessions []*host
	for _, id := range r.Sessions {
		h := &host{w: c.world, id: id}
		h.checkCell(t.Context())
		sessions = append(sessions, h)
	}
	if t.Failed() {
		c.dump(t.Context(), sessions)
	}
}

// node returns the configuration of every node.
func (c *deployed) node() actor.Config {
	cfg := actor.Config{
		Effects: engine.Config{Permissions: policy{c.world}},
		Models:  func(string, []byte) (model.Model, error) { return c.model(), nil },
	}
	hooks := c.seed/2%2 == 0
	c.saw(fmt.Sprint("cell: hooks: ", hooks))
	if hooks {
		cfg.Effects.Hooks, cfg.Effects.Mutators = []extension.Hook{hook{c.world, ""}}, []extension.Mutator{mutator{c.world, "m1"}}
	}
	return cfg
}

// config returns the configuration of a session.
func (c *deployed) config(id content.SessionID) events.Config {
	d := c.dice("config", id)
	cfg := events.Config{
		Model: "fickle", MaxParallel: d.IntN(5) - 1, ApprovalTTL: among(d, 0, time.Minute),
		Retry: events.Retry{ModelAttempts: 2 + d.IntN(3), ToolAttempts: 2 + d.IntN(2), LostAttempts: 2 + d.IntN(4), AskLost: d.one(3)},
	}
	if d.one(3) {
		cfg.Limits = limits(d, 1)
	}
	if d.one(5) {
		cfg.SessionLimits = limits(d, 4)
	}
	return cfg
}

// forged is the text of results without the ticket of their call.
const forged = "forged"

// echoing sometimes sends an additional result, at once or much later, sometimes without the
// ticket of the call.
func (c *deployed) echoing(ctx context.Context, call tool.Call, next tool.Handler) (tool.Output, error) {
	out, err := next(ctx, call)
	d := c.dice("echo", call.Session, call.Place, call.Attempt)
	if err != nil || c.calmed() || !d.one(2) {
		return out, err
	}
	issued, err := tickets.Of(c.t.Context(), c.cell)
	if err != nil {
		c.wrong("tickets: %v", err)
		return out, nil
	}
	ticket, text := issued.Of(call.Session, call.Place, call.Attempt), "reported twice"
	if d.one(2) {
		c.saw("cell: result forged")
		ticket, text = "", forged
	}
	env := commands.Envelope{
		ID: fmt.Sprintf("echo-%s-%d", call.Place, call.Attempt), Session: call.Session,
		Command: commands.ReportResult{Place: call.Place, Attempt: call.Attempt, Queue: torture.Queue, Outcome: tool.Result{
			Result: content.NewResult(call.ID, call.Name, content.StatusOK, text),
		}},
	}
	tell := func() {
		env.ID += "+"
		if _, err := c.cell.Inbox().SendReport(c.t.Context(), env, ticket); err != nil {
			c.wrong("echo: %v", err)
		}
		if err := c.cell.Runs().Wake(c.t.Context(), call.Session); err != nil {
			c.wrong("wake: %v", err)
		}
	}
	if d.one(2) {
		c.saw("cell: result reported twice")
		tell()
	}
	c.saw("cell: result reported late")
	time.AfterFunc(d.upTo(time.Minute), tell)
	return out, nil
}

// checkCell checks the journal of a deployed session at rest.
func (h *host) checkCell(ctx context.Context) {
	rep, err := audit.Verify(h.w.store.Read(ctx, h.id, 0))
	if err != nil {
		h.w.wrong("%s: Verify = %v", h.id, err)
	}
	for _, v := range rep.Warnings {
		h.w.wrong("%s: %s", h.id, v)
	}
	l := h.ledger(ctx)
	h.checkCalls(l)
	h.checkDone(l)
	for text, n := range l.queued {
		if n != 1 || l.joined[text] != 1 {
			h.w.wrong("%s: %q was queued %d times and joined %d times", h.id, text, n, l.joined[text])
		}
	}
	if l.turns != 0 || l.tasks != 0 {
		h.w.wrong("%s: %d turns and %d tasks are not finished", h.id, l.turns, l.tasks)
	}
}

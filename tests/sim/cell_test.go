package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

func TestMain(m *testing.M) { celltest.Main(m) }

var cells = flag.Uint64("sim.cells", 3, "how many seeds to run with nodes and workers over JetStream")

// TestCellsSurviveRandomFaults runs sessions in a deployment whose nodes and workers are
// killed, and whose results are repeated or late.
func TestCellsSurviveRandomFaults(t *testing.T) {
	seen := tally{}
	first, count := *from, *cells
	if *oneSeed != 0 {
		first = *oneSeed
	}
	for seed := first; seed < first+count && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, func(j journal.Journal) journal.Journal { return j })
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			w.cell = celltest.New(ctx, t, 5*time.Second)
			w.store = w.cell.Cell.Journal()
			c := &deployed{world: w, dice: w.dice("cell")}
			c.live()
			if t.Failed() {
				w.dump(t.Context(), c.hosts())
			}
			for k, v := range w.seen {
				seen[k] += v
			}
		})
	}
	t.Logf("what was taken how often:\n%s", seen.table())
	if t.Failed() || *oneSeed != 0 || *from != 1 || *cells < 3 {
		return
	}
	for _, path := range []string{
		"cell: node killed", "cell: node drained", "cell: worker killed", "cell: result reported twice", "cell: result reported late",
		"cell: approval decided", "cell: ask", "event: parked", "event: tool_detached", "event: tool_dispatched",
	} {
		if seen[path] == 0 {
			t.Errorf("no seed took this path: %s", path)
		}
	}
}

// deployed is a cell whose nodes and workers come and go.
type deployed struct {
	*world
	dice     dice
	tickets  *jetstream.Tickets
	nodes    []*celltest.Process
	workers  []*celltest.Process
	born     int
	sent     int
	sessions []*session.Session
}

// forged is the text of results without the ticket of their call.
const forged = "forged"

func (c *deployed) live() {
	var err error
	if c.tickets, err = c.cell.Cell.Tickets(c.cell.Ctx); err != nil {
		c.t.Fatal(err)
	}
	c.hire()
	c.hire()
	c.drive()
	c.drive()
	for n := range 1 + c.dice.IntN(3) {
		c.open(content.SessionID(fmt.Sprintf("s%d", n+1)))
	}
	for range 40 {
		c.act()()
	}
	close(c.calm)
	c.drive()
	c.hire()
	_ = nap(c.cell.Ctx, 3*time.Minute) // late results have arrived by then, and what was abandoned has ended
	for _, s := range c.sessions {
		c.settle(s.ID())
	}
	for _, p := range slices.Concat(c.nodes, c.workers) {
		p.Drain(c.t)
	}
	for _, h := range c.hosts() {
		h.checkCell(c.cell.Ctx)
	}
}

// hosts returns the sessions as hosts, for the checks.
func (c *deployed) hosts() []*host {
	var out []*host
	for _, s := range c.sessions {
		out = append(out, &host{w: c.world, id: s.ID()})
	}
	return out
}

func (c *deployed) act() func() {
	return pick(c.dice,
		choice[func()]{12, c.wait}, choice[func()]{8, c.submit}, choice[func()]{8, c.decide}, choice[func()]{4, c.ask}, choice[func()]{4, c.bury},
		choice[func()]{3, c.killNode}, choice[func()]{3, c.killWorker}, choice[func()]{3, c.drainNode},
	)
}

func (c *deployed) wait() {
	_ = nap(c.cell.Ctx, c.dice.upTo(among(c.dice, 100*time.Millisecond, 5*time.Second, time.Minute)))
}

func (c *deployed) name(what string) string {
	c.born++
	return fmt.Sprint(what, c.born)
}

// drive starts a node.
func (c *deployed) drive() {
	cfg := actor.Config{
		Name: c.name("n"), Logger: zap.New(ear{zap.DebugLevel, c.world}), Effects: engine.Config{Permissions: policy{c.world}},
		Models: func(string, []byte) (model.Model, error) { return c.model(), nil },
	}
	if d := c.world.dice("nodes"); d.one(2) {
		cfg.Effects.Hooks, cfg.Effects.Mutators = []extension.Hook{hook{c.world, ""}}, []extension.Mutator{mutator{c.world, "m1"}}
	}
	c.nodes = append(c.nodes, c.cell.Node(cfg))
}

// hire starts a worker.
func (c *deployed) hire() {
	var tools []tool.Tool
	for _, t := range c.tools {
		tools = append(tools, tool.Wrap(t, c.echoing))
	}
	cfg := worker.Config{DrainTimeout: time.Minute}
	c.workers = append(c.workers, c.cell.Worker(c.name("w"), cfg, func(*nats.Conn) []tool.Tool { return tools }))
}

// busy gives the cell something to do.
func (c *deployed) busy() {
	c.submit()
	_ = nap(c.cell.Ctx, c.dice.upTo(3*time.Second))
}

func (c *deployed) killNode() {
	c.busy()
	if c.dice.one(2) {
		c.drive()
		defer c.wait()
	} else {
		defer c.drive()
		defer c.wait()
	}
	c.saw("cell: node killed")
	c.leaving(&c.nodes).Crash(c.t)
}

func (c *deployed) drainNode() {
	c.drive()
	c.saw("cell: node drained")
	c.leaving(&c.nodes).Drain(c.t)
}

func (c *deployed) killWorker() {
	c.busy()
	defer c.hire()
	c.saw("cell: worker killed")
	c.leaving(&c.workers).Crash(c.t)
}

func (c *deployed) leaving(of *[]*celltest.Process) *celltest.Process {
	i := c.dice.IntN(len(*of))
	p := (*of)[i]
	*of = slices.Delete(*of, i, i+1)
	return p
}

// echoing sometimes sends an additional result, at once or much later, sometimes without the
// ticket of the call.
func (c *deployed) echoing(ctx context.Context, call tool.Call, next tool.Handler) (tool.Output, error) {
	out, err := next(ctx, call)
	d := c.world.dice("echo", call.Session, call.Place, call.Attempt)
	if err != nil || c.calmed() || !d.one(2) {
		return out, err
	}
	ticket, text := c.tickets.Of(call.Session, call.Place, call.Attempt), "reported twice"
	if d.one(2) {
		c.saw("cell: result forged")
		ticket, text = "", forged
	}
	env := commands.Envelope{
		ID: fmt.Sprintf("echo-%s-%d", call.Place, call.Attempt), Session: call.Session,
		Command: commands.ReportResult{Place: call.Place, Attempt: call.Attempt, Queue: celltest.Queue, Outcome: tool.Result{
			Result: content.NewResult(call.ID, call.Name, content.StatusOK, text),
		}},
	}
	tell := func() {
		env.ID += "+"
		if _, err := c.cell.Cell.Inbox().SendReport(c.cell.Ctx, env, ticket); err != nil && c.cell.Ctx.Err() == nil {
			c.wrong("echo: %v", err)
		}
		if err := c.cell.Cell.Runs().Wake(c.cell.Ctx, call.Session); err != nil && c.cell.Ctx.Err() == nil {
			c.wrong("wake: %v", err)
		}
	}
	if d.one(2) {
		c.saw("cell: result reported twice")
		tell()
	}
	c.saw("cell: result reported late")
	time.AfterFunc(d.upTo(2*time.Minute), tell)
	return out, nil
}

func (c *deployed) open(id content.SessionID) {
	d := c.world.dice("config", id)
	s := c.cell.Start(id, "", func(o *client.Options) {
		o.Config.MaxParallel = d.IntN(5) - 1
		o.Config.Retry = events.Retry{ModelAttempts: 2 + d.IntN(3), ToolAttempts: 2 + d.IntN(2), LostAttempts: 2 + d.IntN(4), AskLost: d.one(3)}
		if d.one(3) {
			o.Config.Limits = limits(d, 1)
		}
		if d.one(5) {
			o.Config.SessionLimits = limits(d, 4)
		}
		o.Config.ApprovalTTL = among(d, 0, time.Minute)
		o.Input = []content.Item{content.UserText("preloaded")}
	})
	c.sessions = append(c.sessions, s)
}

// patient sends a command with a deadline, since there may be no node now.
func (c *deployed) patient(what string, ask func(context.Context) error) {
	ctx, cancel := context.WithTimeout(c.cell.Ctx, c.dice.upTo(2*time.Minute))
	defer cancel()
	err := ask(ctx)
	c.note("cell", "%s: %v", what, err)
	var refused *session.InvalidStateError
	if err != nil && !errors.As(err, &refused) && ctx.Err() == nil {
		c.wrong("%s: %v", what, err)
	}
}

func (c *deployed) session() *session.Session { return c.sessions[c.dice.IntN(len(c.sessions))] }

func (c *deployed) submit() {
	s, busy := c.session(), among(c.dice, events.Steer, events.Steer, events.Queue, events.Interrupt, events.Reject)
	c.sent++
	c.patient("submit", func(ctx context.Context) error {
		return s.Send(ctx, busy, content.UserText(fmt.Sprintf("input %d", c.sent)))
	})
}

// decide resolves the first open approval of a session, if there is one.
func (c *deployed) decide() {
	st := c.state(c.session().ID())
	for _, a := range st.PendingApprovals() {
		c.saw("cell: approval decided")
		c.resolve(st.Session, a, session.Decision{Approve: !c.dice.one(3), Always: c.dice.one(4), By: "ann"})
		return
	}
	c.wait()
}

// bury retries or drops a dead letter.
func (c *deployed) bury() {
	for _, s := range c.sessions {
		for _, call := range c.state(s.ID()).DeadLetters() {
			c.saw("cell: dead letter settled")
			c.patient("settle "+string(call.ID), func(ctx context.Context) error {
				return s.Ask(ctx, commands.SettleDeadLetter{Call: call.ID, Retry: !c.dice.one(3), MayRepeat: true, By: "ann"})
			})
			return
		}
	}
	c.wait()
}

func (c *deployed) resolve(id content.SessionID, a events.Approval, v session.Decision) {
	i := slices.IndexFunc(c.sessions, func(s *session.Session) bool { return s.ID() == id })
	v.Call, v.Always = a.CallID, v.Always && v.Approve
	c.patient("decide "+string(a.ID), func(ctx context.Context) error { return c.sessions[i].ResolveApproval(ctx, v) })
}

// ask sends a command that may make no sense now.
func (c *deployed) ask() {
	s := c.session()
	call := content.CallID("no-such-call")
	st := c.state(s.ID())
	if st.Turn != nil && len(st.Turn.Calls) > 0 {
		call = st.Turn.Calls[c.dice.IntN(len(st.Turn.Calls))].ID
	}
	c.saw("cell: ask")
	c.patient("ask", func(ctx context.Context) error {
		switch c.dice.IntN(5) {
		case 0:
			return s.Cancel(ctx, "enough")
		case 1, 2:
			return s.Calls().Cancel(ctx, call, "not this")
		}
		return s.Calls().Detach(ctx, call)
	})
}

// state folds the state of a session from its journal.
func (c *deployed) state(id content.SessionID) *loop.State {
	s, err := audit.Replay(id, c.store.Read(c.cell.Ctx, id, 0))
	if err != nil {
		c.t.Fatalf("seed %d: %s: Replay = %v", c.seed, id, err)
	}
	return s
}

// settle waits until a session is at rest, and resolves its approvals.
func (c *deployed) settle(id content.SessionID) {
	var st *loop.State
	for range 200 {
		st = c.state(id)
		open := st.PendingApprovals()
		switch {
		case len(open) > 0:
			c.resolve(id, open[0], session.Decision{Approve: true, By: "ann"})
		case loop.Waiting(st) == commands.WaitInput && len(st.Queue) == 0 && !wakes(st) && !slices.ContainsFunc(st.Background, loop.Call.Running):
			return
		default:
			_ = nap(c.cell.Ctx, 30*time.Second)
		}
	}
	c.wrong("%s does not come to rest: it waits for %s and owes %d effects", id, loop.Waiting(st), len(loop.Pending(st)))
}

// checkCell checks the journal of a deployed session at rest.
func (h *host) checkCell(ctx context.Context) {
	rep, err := audit.Verify(h.w.store.Read(ctx, h.id, 0))
	if err != nil {
		h.w.wrong("%s: Verify = %v", h.id, err)
	}
	for _, v := range append(rep.Violations, rep.Warnings...) {
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

package actor

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
)

// Nodes look after one another: each keeps a record of the tokens that it holds,
// and a node that finds another dead hands them on before their leases lapse. Nothing
// depends on it but how long that takes.
//
// An unrecorded token waits for its lease when its node dies, so one that was
// taken is recorded at once. A record names all tokens: the more there are, the
// longer the pause after it. What could not be recorded yet, because the records have no
// leader, for example, the node tells each node that asks whether it lives.
const (
	recordEvery    = 5 * time.Second
	recordPause    = 20 * time.Millisecond
	recordShare    = 100 * time.Microsecond // for each token
	maxRecordPause = 500 * time.Millisecond
)

// How often a node looks at the others, and as much again at random. The more there are,
// the more look at each.
const (
	guardPause = 250 * time.Millisecond // and for each node
	guardShare = 25 * time.Millisecond
	maxGuard   = time.Second
)

// record tells the other nodes which tokens this one holds, and answers their
// probes.
func (n *Node) record(ctx context.Context) error {
	nodes := n.cell.Nodes()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Answer(ctx, n.cfg.Name, n.unrecorded) })
	group.Go(func() error {
		for failed := false; ; {
			held := n.holds()
			err := nodes.Record(ctx, n.cfg.Name, held)
			if err != nil && !failed && ctx.Err() == nil {
				n.log.Warn("held tokens could not be recorded", zap.Error(err))
			}
			if failed = err != nil; failed {
				n.recordSoon()
			} else {
				n.stands(held)
			}
			pause(ctx, min(recordPause+time.Duration(len(held))*recordShare, maxRecordPause))
			select {
			case <-n.moved:
			case <-time.After(recordEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	err := group.Wait()
	forget, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if ferr := nodes.Forget(forget, n.cfg.Name); ferr != nil {
		n.log.Debug("node record stays until it expires", zap.Error(ferr))
	}
	return err //nolint:wrapcheck // the cause of ctx
}

// recordSoon has the tokens recorded again, beside other work.
func (n *Node) recordSoon() {
	select {
	case n.moved <- struct{}{}:
	default: // they will be
	}
}

// holds lists the tokens.
func (n *Node) holds() (held []jetstream.HeldToken) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s, reply := range n.held {
		held = append(held, jetstream.HeldToken{Session: s, Reply: reply})
	}
	return held
}

// stands remembers what the node's record names.
func (n *Node) stands(held []jetstream.HeldToken) {
	recorded := make(map[content.SessionID]string, len(held))
	for _, h := range held {
		recorded[h.Session] = h.Reply
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recorded = recorded
}

// unrecorded lists the tokens that the node's record does not name.
func (n *Node) unrecorded() (held []jetstream.HeldToken) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s, reply := range n.held {
		if n.recorded[s] != reply {
			held = append(held, jetstream.HeldToken{Session: s, Reply: reply})
		}
	}
	return held
}

// guard looks for nodes that died. Of those who find one dead the first by name hands its
// tokens on at once, and the others if it did not: what another node has taken meanwhile must not
// be taken from them.
func (n *Node) guard(ctx context.Context) error {
	told := make(map[string][]jetstream.HeldToken) // by each node, when it lived
	rounds := make(map[string]int)                 // in which each was dead: its record may stay
	var handed []jetstream.HeldToken               // in the round before
	wait := guardPause
	for pause(ctx, wait+rand.N(wait)) { //nolint:gosec // jitter
		records, err := n.cell.Nodes().List(ctx)
		if err != nil {
			if ctx.Err() == nil {
				n.log.Warn("nodes could not be listed", zap.Error(err))
			}
			continue
		}
		wait = min(guardPause+time.Duration(len(records))*guardShare, maxGuard)
		c := n.census(ctx, records, told)
		// The server may have given them to a node that hangs, whose requests still stand.
		n.handOn(c.living, handed)
		handed = nil
		rounds = c.count(rounds)
		for _, r := range c.dead {
			if rounds[r.Node] < c.turn {
				continue
			}
			rounds[r.Node] = done
			n.log.Warn("node is dead", zap.String("dead", r.Node), zap.Int("sessions", len(r.Held)))
			n.handOn(c.living, r.Held)
			handed = append(handed, r.Held...)
			delete(told, r.Node)
			if err := n.cell.Nodes().Forget(ctx, r.Node); err != nil {
				n.log.Warn("dead node could not be forgotten", zap.Error(err))
			}
		}
	}
	return context.Cause(ctx)
}

// done is what is counted of a node whose tokens were handed on.
const done = math.MinInt32

// census is what a look at all nodes found.
type census struct {
	living map[content.SessionID]bool // the sessions of living nodes
	dead   []jetstream.NodeRecord     // with what they said of themselves
	turn   int                        // the round in which a dead node's tokens are this one's to hand on
}

// count counts the rounds in which nodes were dead.
func (c census) count(before map[string]int) map[string]int {
	rounds := make(map[string]int)
	for _, r := range c.dead {
		rounds[r.Node] = before[r.Node] + 1
	}
	return rounds
}

// census tells the sessions of living nodes from the nodes that are dead. It keeps in told
// what nodes say of themselves beside their records.
func (n *Node) census(ctx context.Context, records []jetstream.NodeRecord, told map[string][]jetstream.HeldToken) census {
	c := census{living: make(map[content.SessionID]bool), turn: 1}
	asked, known := n.ask(ctx, records), false
	for i, r := range records {
		if r.Node == n.cfg.Name {
			known = true
			n.clock.compared(r.Ahead)
		}
		if asked[i].lives {
			told[r.Node] = asked[i].unrecorded
		}
		r.Held = with(r.Held, told[r.Node])
		if !asked[i].lives {
			c.dead = append(c.dead, r)
			continue
		}
		if r.Node < n.cfg.Name {
			c.turn = 2
		}
		for _, h := range r.Held {
			c.living[h.Session] = true
		}
	}
	if !known { // another node took this one for dead
		n.recordSoon()
	}
	return c
}

// with adds the tokens to a record that it does not name.
func with(recorded, told []jetstream.HeldToken) []jetstream.HeldToken {
	out := slices.Clip(recorded)
	for _, h := range told {
		if !slices.Contains(recorded, h) {
			out = append(out, h)
		}
	}
	return out
}

// answer is what came of asking a node.
type answer struct {
	lives      bool
	unrecorded []jetstream.HeldToken
}

// ask asks which nodes live. One that hangs takes a while to be told, so all are asked at
// once.
func (n *Node) ask(ctx context.Context, records []jetstream.NodeRecord) []answer {
	out := make([]answer, len(records))
	var asked sync.WaitGroup
	for i, r := range records {
		if r.Node == n.cfg.Name {
			out[i] = answer{lives: true}
			continue
		}
		asked.Go(func() { out[i].unrecorded, out[i].lives = n.cell.Nodes().Ask(ctx, r.Node) })
	}
	asked.Wait()
	return out
}

// handOn hands tokens back, but for those of sessions that a living node has by now.
func (n *Node) handOn(living map[content.SessionID]bool, tokens []jetstream.HeldToken) {
	for _, h := range tokens {
		if living[h.Session] || n.drives(h.Session) {
			continue
		}
		if err := n.runs.NakFor(h.Reply); err != nil {
			n.log.Warn("session could not be handed on", logfield.Session(h.Session), zap.Error(err))
		}
	}
}

func (n *Node) drives(s content.SessionID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, held := n.held[s]
	return held
}

// clock knows whether the node's clock can be compared with the servers'. A worker that
// gets a task sees how long it was on its way by the two; were the node's clock ahead by just
// as much, one that came late would seem to have come in time. So a node whose clock differs,
// or that does not know, puts no time on its tasks, and workers always look for a fence. It
// is safe for concurrent use.
type clock struct {
	agreed atomic.Pointer[time.Time] // when it was last found right; with the monotonic clock
}

const (
	clockOff   = 50 * time.Millisecond // half of what a worker takes for in time
	clockKnown = 3 * recordEvery
)

// compared hears how far ahead the clock was when the node's record was made.
func (c *clock) compared(ahead time.Duration) {
	if ahead.Abs() > clockOff {
		c.agreed.Store(nil)
		return
	}
	now := time.Now()
	c.agreed.Store(&now)
}

// comparable returns a time that this node or an earlier one put on an entry, or zero if it may
// not be compared with the servers' clocks.
func (c *clock) comparable(at content.Time) content.Time {
	agreed := c.agreed.Load()
	if now := time.Now(); agreed == nil || now.Sub(*agreed) > clockKnown || at.Std().After(now) {
		return 0
	}
	return at
}

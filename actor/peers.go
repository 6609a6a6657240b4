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

	"github.com/turnlog/turnlog/actor/internal/tokens"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
)

// Nodes watch each other. Each node's record names the tokens that it holds; see package tokens. A node that
// finds another one dead returns that node's tokens before their leases expire, so that others take them.

// The pause between two looks at the other nodes, plus up to as much again at random. The more nodes there
// are, the longer each one pauses. A node that is alone looks only for new ones.
const (
	guardPause = 250 * time.Millisecond
	guardShare = 25 * time.Millisecond // for each node
	maxGuard   = time.Second

	unheldFor = 15 * time.Second // longer than a lease
)

// guard looks for dead nodes. Of the nodes that find one, the first by name returns its tokens at once. The
// others do so in a later round if the first did not: a token that another node has taken in the meantime
// must not be taken away again.
func (n *Node) guard(ctx context.Context) error {
	answers := make(map[string][]jetstream.HeldToken) // the last answer of each node
	rounds := make(map[string]int)                    // rounds for which each node was dead; its record may stay
	suspects := make(tokens.Suspects)
	var lost unheld
	wait := guardPause
	for pause.For(ctx, wait+rand.N(wait)) { //nolint:gosec // jitter
		taken := lost.taken(ctx, n) // before the nodes are asked, so that living nodes know of these tokens
		suspects.Left(n.tokens.Left())
		c, err := n.census(ctx, answers, len(suspects) > 0 || !lost.since.IsZero())
		if err != nil {
			if ctx.Err() == nil {
				n.log.Warn("nodes not listed", zap.Error(err))
			}
			continue
		}
		if wait = min(guardPause+time.Duration(c.nodes)*guardShare, maxGuard); c.nodes <= 1 && lost.since.IsZero() {
			wait = maxGuard
		}
		var dead []jetstream.NodeRecord
		was := rounds
		rounds = make(map[string]int)
		for _, r := range c.dead {
			if rounds[r.Node] = was[r.Node] + 1; rounds[r.Node] < c.turn {
				suspects.Later(r.Held)
				continue
			}
			rounds[r.Node] = math.MinInt32 // never again
			lost.since = time.Now()
			n.log.Warn("node is dead", zap.String("dead", r.Node), zap.Int("sessions", len(r.Held)))
			suspects.Dead(r.Held)
			delete(answers, r.Node)
			dead = append(dead, r)
		}
		n.handOn(append(suspects.Due(c.holder), lost.again(taken, c)...))
		for _, r := range dead {
			if err := n.cell.Nodes().Forget(ctx, r.Node); err != nil {
				n.log.Warn("record of the dead node not removed", zap.Error(err))
			}
		}
	}
	return context.Cause(ctx)
}

// unheld finds the tokens that a dead node took but did not record: it died within milliseconds of taking
// them, or it hung, and the server gave them to its pending requests. No living node has such a token. If
// that is so for several rounds in a row, the token is not on its way to one either.
type unheld struct {
	since  time.Time // when a node was last found dead; zero: never
	known  map[content.SessionID]uint64
	rounds map[content.SessionID]int
}

// unheldRounds is after how many rounds without a holder the first node by name returns a token. The others
// wait one round more.
const unheldRounds = 2

// taken lists the tokens that the server has given out. It does so only for as long after a death as the
// leases last.
func (u *unheld) taken(ctx context.Context, n *Node) []jetstream.HeldToken {
	if u.since.IsZero() || time.Since(u.since) > unheldFor {
		u.since, u.rounds = time.Time{}, nil
		return nil
	}
	taken, err := n.runs.Taken(ctx, u.known)
	if err != nil {
		n.log.Debug("run tokens not listed", zap.Error(err)) // they return when their leases expire
	}
	return taken
}

// again returns the tokens that no living node had for enough rounds.
func (u *unheld) again(taken []jetstream.HeldToken, c census) (out []jetstream.HeldToken) {
	was := u.rounds
	u.known, u.rounds = c.living, make(map[content.SessionID]int)
	for _, h := range taken {
		if c.holder(h.Session) > 0 {
			continue
		}
		if u.rounds[h.Session] = was[h.Session] + 1; u.rounds[h.Session] == unheldRounds+c.turn-1 {
			out = append(out, h)
		}
	}
	return out
}

// census is the result of a look at all nodes.
type census struct {
	nodes   int
	living  map[content.SessionID]uint64 // sessions of living nodes, with the number of the last delivery of their tokens
	dead    []jetstream.NodeRecord       // with the tokens of their last answers
	turn    int                          // the round in which this node returns a dead node's tokens
	earlier bool                         // some living nodes run an earlier release
}

// holder returns the number of the delivery of a session's token that a living node has, or 0.
func (c census) holder(s content.SessionID) uint64 { return c.living[s] }

func (c census) has(t jetstream.HeldToken) {
	c.living[t.Session] = max(c.living[t.Session], t.Delivery(), 1)
}

// census separates the sessions of living nodes from the dead nodes, and updates answers. A dead node takes a
// while to probe, and other nodes may take its sessions meanwhile. So census looks again until it finds no
// more dead nodes. If no node is dead, it reads the lists of tokens only if lists is true.
func (n *Node) census(ctx context.Context, answers map[string][]jetstream.HeldToken, lists bool) (census, error) {
	nodes := n.cell.Nodes()
	for dead := make(map[string]bool); ; {
		list := nodes.Heartbeats
		if lists = lists || len(dead) > 0; lists {
			list = nodes.List
		}
		records, err := list(ctx)
		if err != nil {
			return census{}, err
		}
		known := len(dead)
		n.probe(ctx, records, dead, answers)
		if len(dead) == known {
			return n.count(records, dead, answers, lists), nil
		}
	}
}

// probe asks all other nodes that are not dead at once for the tokens that they have not recorded. It adds
// those that do not answer to dead.
func (n *Node) probe(ctx context.Context, records []jetstream.NodeRecord, dead map[string]bool, answers map[string][]jetstream.HeldToken) {
	type answer struct {
		alive      bool
		unrecorded []jetstream.HeldToken
	}
	got := make([]answer, len(records))
	var probes sync.WaitGroup
	for i, r := range records {
		if r.Node == n.cfg.Name || dead[r.Node] {
			got[i] = answer{!dead[r.Node], nil}
			continue
		}
		probes.Go(func() { got[i].unrecorded, _, got[i].alive = n.cell.Nodes().Ask(ctx, r.Node) })
	}
	probes.Wait()
	for i, r := range records {
		if got[i].alive {
			answers[r.Node] = got[i].unrecorded
		} else {
			dead[r.Node] = true
		}
	}
}

func (n *Node) count(records []jetstream.NodeRecord, dead map[string]bool, answers map[string][]jetstream.HeldToken, lists bool) census {
	c, recorded := census{nodes: len(records), living: make(map[content.SessionID]uint64), turn: 1}, false
	if lists {
		for _, t := range n.tokens.All() {
			c.has(t)
		}
	}
	for _, r := range records {
		if r.Node == n.cfg.Name {
			recorded = true
			if n.tokens.IsOwn(r) {
				n.clock.compared(r.Ahead)
				continue
			}
			for _, h := range r.Held { // tokens of the process before, or of a node that took this one for dead and has later deliveries
				c.living[h.Session] = max(c.living[h.Session], h.Delivery()-1)
			}
			continue
		}
		for _, h := range answers[r.Node] {
			if !slices.Contains(r.Held, h) {
				r.Held = append(r.Held, h)
			}
		}
		if dead[r.Node] {
			c.dead = append(c.dead, r)
			continue
		}
		if r.Node < n.cfg.Name {
			c.turn = 2
		}
		c.earlier = c.earlier || r.Process == ""
		for _, h := range r.Held {
			c.has(h)
		}
	}
	n.tokens.SetEarlierNodes(c.earlier)
	if !recorded { // another node took this one for dead
		n.tokens.Unrecorded()
	}
	return c
}

// handOn returns tokens that no living node has to the server.
func (n *Node) handOn(tokens []jetstream.HeldToken) {
	for _, h := range tokens {
		if n.tokens.Has(h.Session) {
			continue
		}
		if err := n.runs.NakFor(h.Reply); err != nil {
			n.log.Warn("session not handed over", logfield.Session(h.Session), zap.Error(err))
		}
	}
}

// clock tracks whether the node's clock agrees with the servers'. A worker compares the two to tell how long
// a task was on its way. If the node's clock were ahead, a late task would seem to be in time. So a node
// whose clock differs, or is not known to agree, puts no time on its tasks, and workers always look for a
// fence. It is safe for concurrent use.
type clock struct {
	agreed atomic.Pointer[time.Time] // when it last agreed; with the monotonic clock
}

const (
	clockOff   = 50 * time.Millisecond // half of the delay that a worker tolerates
	clockKnown = 15 * time.Second      // a few records
)

// compared records how far ahead the clock was when the node wrote its record.
func (c *clock) compared(ahead time.Duration) {
	if ahead.Abs() > clockOff {
		c.agreed.Store(nil)
		return
	}
	now := time.Now()
	c.agreed.Store(&now)
}

// comparable returns the time of an entry by this node or an earlier one, or zero if it must not be compared
// with the servers' clocks.
func (c *clock) comparable(at content.Time) content.Time {
	agreed := c.agreed.Load()
	if now := time.Now(); agreed == nil || now.Sub(*agreed) > clockKnown || at.Std().After(now) {
		return 0
	}
	return at
}

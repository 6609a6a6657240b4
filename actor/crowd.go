package actor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
)

// While many tokens wait, someone may be waking sessions that have nothing to do, or one user may have sent
// commands to many sessions. The node then lists which sessions have commands, and from whom. One listing
// serves all tokens that were taken while it ran.
//
//   - Tokens of sessions without a command are discarded, so that sessions with commands do not wait long. A
//     session without a command may still need a driver, because a stream lost the command. So the node looks
//     at each discarded session when it has time.
//   - No sender gets more than its share of the node's slots while sessions of others wait. The last eighth of
//     the slots is for senders that have none. So one more sender always gets a slot, however many slots others
//     hold and for however long, unless that many senders have each taken one of the last eighth. The tokens of
//     a sender's other sessions are discarded. Those sessions are woken as others are left, or by a sweep if the
//     node dies, until all of them have run.
//
// A list of very many sessions takes the server minutes. The node then looks at the session of each token
// instead.
//
// A user's name is the only sender that the server verifies. All users without a name share one sender, and
// so do the lanes of workers and of timers.
const (
	crowded   = 256    // waiting tokens
	maxDoubts = 50_000 // sessions to look at again; a node that starts looks for all of them
	maxWoken  = 1000   // sessions woken in one sweep
	doubtsNow = 1000   // sessions looked at in one sweep

	sharesFor = 500 * time.Millisecond // how long a listing is used
	lookFor   = 10 * time.Second       // how long the node looks at sessions one by one before it tries to list them again
)

// crowd is what a node knows about waiting tokens.
type crowd struct {
	ticks     atomic.Uint64 // orders listings and the tokens that need one
	postpones atomic.Bool   // sessions wait in postponed
	taken     atomic.Int64  // sessions that this node drives: from when discard returns false until they are left

	mu      sync.Mutex // guards the rest, and is held while sessions are listed
	listed  uint64     // when the last listing began
	at      time.Time  // when the listing in use began
	senders map[content.SessionID][]string
	driven  map[string]int // sessions that this node drives, by sender
	others  map[string]int // sessions that no node drives, by sender
	tooMany time.Time      // there are too many sessions to list; until then the node looks at them one by one

	postponed []content.SessionID // discarded, to be woken
	waiting   []content.SessionID // discarded, to be looked at
}

// inCrowd reports whether many tokens wait, and the last driver of this one's session gave it up in order.
func inCrowd(t *jetstream.Token) bool { return t.IsFirst() && t.Waiting() >= crowded }

// most is how many of a node's slots are for senders that already have some.
func most(places int) int { return max(places*7/8, 1) }

// discard discards a token if many tokens wait and its session has no command, or if its senders have used
// their share of the node.
func (n *Node) discard(ctx context.Context, t *jetstream.Token) bool {
	began, c, crowd, s := time.Now(), &n.crowd, inCrowd(t), t.Session()
	if !t.IsFirst() || !crowd && !c.postpones.Load() {
		c.taken.Add(1)
		return false
	}
	tick := c.ticks.Add(1)
	seen, err := n.lookAt(ctx, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := false
	if err == nil {
		known, err = n.findSenders(ctx, s, began, tick, seen)
	}
	if err != nil {
		n.sparse.Line(n.log, zap.WarnLevel, "sessions with commands not listed", zap.Error(err))
	}
	how, later := leftDiscarded, &c.waiting
	switch senders := c.senders[s]; {
	case c.mustWait(senders, n.cfg.Capacity):
		how, later = leftPostponed, &c.postponed
	case len(senders) > 0 || !crowd: // the listing may be older than the last command
		known = false
	}
	room := len(*later) < maxDoubts
	if !known || how == leftDiscarded && !room || time.Since(began) > t.AckWait()/4 || t.Discard() != nil {
		c.count(s, 1)
		return false
	}
	if room { // otherwise a sweep finds its commands
		*later = append(*later, s)
	}
	c.postpones.Store(len(c.postponed) > 0)
	n.cfg.Metrics.SessionTaken()
	n.cfg.Metrics.SessionLeft(how)
	return true
}

// findSenders finds out who sent the commands of a session, by listing all sessions unless there are too many. Then
// seen has the senders of the sessions that were looked at. The caller holds the crowd's lock.
func (n *Node) findSenders(ctx context.Context, s content.SessionID, began time.Time, tick uint64, seen map[content.SessionID][]string) (known bool, err error) {
	c := &n.crowd
	recent := len(c.senders[s]) > 0 && time.Since(c.at) < sharesFor
	switch many := began.Before(c.tooMany); {
	case seen != nil:
		c.see(s, seen[s])
	case many: // it was taken before the listing began
		return false, nil
	case c.listed < tick && !recent:
		listed := c.ticks.Add(1)
		if err := n.list(ctx); err != nil {
			return false, err
		}
		c.listed = listed
		return !began.Before(c.tooMany), nil
	}
	return true, nil
}

// lookAt returns who sent the commands of a session, or nil if the sessions can be listed.
func (n *Node) lookAt(ctx context.Context, s content.SessionID) (map[content.SessionID][]string, error) {
	n.crowd.mu.Lock()
	many := time.Now().Before(n.crowd.tooMany)
	n.crowd.mu.Unlock()
	if !many {
		return nil, nil
	}
	return n.runs.Senders(ctx, s)
}

// see records who sent the commands of a waiting session.
func (c *crowd) see(s content.SessionID, senders []string) {
	c.senders[s] = senders
	for _, sender := range senders {
		c.others[sender] = max(c.others[sender], 1)
	}
}

// list lists the sessions with commands, or if there are too many, only those that the node drives. The
// caller holds the crowd's lock.
func (n *Node) list(ctx context.Context) error {
	began, c := time.Now(), &n.crowd
	senders, err := n.runs.Senders(ctx)
	many := errors.Is(err, jetstream.ErrTooMany)
	if many {
		here := n.tokens.Sessions()
		senders, err = make(map[content.SessionID][]string), nil
		if len(here) > 0 {
			senders, err = n.runs.Senders(ctx, here...)
		}
	}
	if err != nil {
		return err
	}
	records, err := n.cell.Nodes().List(ctx)
	if err != nil {
		return err
	}
	elsewhere := make(map[content.SessionID]bool)
	for _, r := range records {
		for _, held := range r.Held {
			elsewhere[held.Session] = elsewhere[held.Session] || r.Node != n.cfg.Name
		}
	}
	if many {
		c.tooMany = time.Now().Add(lookFor)
	}
	c.at, c.senders, c.driven, c.others = began, senders, make(map[string]int), make(map[string]int)
	for s, from := range senders {
		of := c.others
		if n.tokens.Has(s) {
			of = c.driven
		} else if elsewhere[s] {
			continue
		}
		for _, sender := range from {
			of[sender]++
		}
	}
	return nil
}

// mustWait reports whether a session must wait because each of its senders has its share of the slots, or has a
// slot while the rest are kept for senders that have none.
func (c *crowd) mustWait(senders []string, places int) bool {
	waiting := 1
	for other := range c.others {
		if !slices.Contains(senders, other) {
			waiting++
		}
	}
	share := max(places/waiting, 1)
	if c.taken.Load() >= int64(most(places)) {
		share = 1
	}
	return len(senders) > 0 && !slices.ContainsFunc(senders, func(s string) bool { return c.driven[s] < share })
}

// count changes how many sessions the node drives, until the next listing counts them again.
func (c *crowd) count(s content.SessionID, change int) {
	c.taken.Add(int64(change))
	for _, sender := range c.senders[s] {
		c.driven[sender] += change
	}
}

// leaveCrowd stops counting a session and wakes postponed ones. It wakes two, since another node may take
// one, or one may have to wait again.
func (n *Node) leaveCrowd(s content.SessionID) {
	n.crowd.mu.Lock()
	defer n.crowd.mu.Unlock()
	n.crowd.count(s, -1)
	delete(n.crowd.senders, s)
	n.wakePostponed(2)
}

// wakePostponed wakes up to count postponed sessions. The caller holds the crowd's lock.
func (n *Node) wakePostponed(count int) {
	for _, s := range n.crowd.postponed[:min(max(count, 0), len(n.crowd.postponed))] {
		n.runs.WakeSoon(s)
		n.crowd.postponed = n.crowd.postponed[1:]
	}
	n.crowd.postpones.Store(len(n.crowd.postponed) > 0)
}

// withoutPostponed wakes as many postponed sessions as the node has slots for. It returns the orphans that
// are not postponed.
func (n *Node) withoutPostponed(orphans []content.SessionID) []content.SessionID {
	n.crowd.mu.Lock()
	defer n.crowd.mu.Unlock()
	n.wakePostponed(most(n.cfg.Capacity) - len(n.slots))
	later := make(map[content.SessionID]bool)
	for _, s := range n.crowd.postponed {
		later[s] = true
	}
	return slices.DeleteFunc(orphans, func(s content.SessionID) bool { return later[s] })
}

// recheckDiscarded looks at sessions whose tokens were discarded, and wakes those that are not at rest.
func (n *Node) recheckDiscarded(ctx context.Context) {
	n.crowd.mu.Lock()
	all := n.crowd.waiting
	look := all[:min(len(all), doubtsNow)]
	n.crowd.waiting = slices.Clone(all[len(look):])
	n.crowd.mu.Unlock()
	slices.Sort(look)
	for _, s := range slices.Compact(look) {
		last, err := n.cell.Journal().Last(ctx, s)
		waiting, err2 := n.cell.Inbox().HasAny(ctx, s) // a command may have arrived since its token was discarded
		if quiet := !waiting && err2 == nil; errors.Is(err, journal.ErrNotFound) && quiet {
			continue
		} else if err == nil && rests(last.Entry) && quiet {
			if held, err := n.runs.Holds(ctx, s, last.Entry); held && err == nil {
				continue
			}
		}
		if err := n.runs.Wake(ctx, s); err != nil {
			n.log.Warn("session not woken", logfield.Session(s), zap.Error(err))
			n.crowd.mu.Lock()
			n.crowd.waiting = append(n.crowd.waiting, s)
			n.crowd.mu.Unlock()
		}
	}
}

// rests reports whether a session without commands has nothing to do, given its last entry.
func rests(last events.Entry) bool {
	_, deleted := events.DeletionOf(last)
	return deleted || engine.Parks(last)
}

// wakeOrphans wakes sessions that have commands and no token, unless they are set aside.
func (n *Node) wakeOrphans(ctx context.Context, orphans []content.SessionID) {
	first := 0
	if len(orphans) > maxWoken { // other nodes may have postponed some; start at random, so that none is always last
		first = rand.N(len(orphans) - maxWoken + 1) //nolint:gosec // no secret
	}
	for _, s := range orphans[first:min(first+maxWoken, len(orphans))] {
		if aside, err := n.trials.Aside(ctx, s); err == nil && aside {
			continue
		}
		if err := n.runs.Wake(ctx, s); err != nil {
			n.log.Warn("session not woken", logfield.Session(s), zap.Error(err))
		}
	}
}

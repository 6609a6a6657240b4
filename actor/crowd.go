package actor

import (
	"context"
	"errors"
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

// While many tokens wait, somebody may be waking sessions that have nothing to do, or one user may have
// sent commands to many sessions. Listings then say which sessions have commands, and from whom; each
// serves all tokens that were taken meanwhile.
//
//   - Tokens of sessions without a command are discarded, so that the sessions with commands behind them
//     need not wait long. A session may also need a driver without having a command, because streams have
//     lost it. So each one is looked at when there is time.
//   - No sender gets more than its share of the node's places while sessions of others wait, and the last
//     eighth of them is for senders who have none. So however many places others take, and however long they
//     keep them, one more sender gets one, as long as fewer senders than these places have taken theirs.
//     Tokens of its other sessions are discarded, and woken as sessions are left, or by a sweep if the
//     node dies. This goes on until all of them are woken.
//
// A list of very many sessions takes the server minutes. Then the node looks at the session of each token
// instead.
//
// The name of a user is the only sender that the server verifies. All users without one share, and so do
// the lanes of workers and of timers.
const (
	crowded   = 256    // waiting tokens
	maxDoubts = 50_000 // sessions to look at again; nodes look for all of them when they start
	maxWoken  = 1000   // sessions that one sweep wakes
	doubtsNow = 1000   // that one sweep looks at

	sharesFor = 500 * time.Millisecond // how long a listing says who has commands
	lookFor   = 10 * time.Second       // how long sessions are looked at one by one before the next try to list them
)

// crowd is what a node knows about tokens that wait.
type crowd struct {
	ticks     atomic.Uint64 // orders listings and those who need one
	postpones atomic.Bool   // sessions wait in postponed
	taken     atomic.Int64  // sessions that this node drives: all for which discard returned false, until they are left

	mu      sync.Mutex // guards the rest, and is held while sessions are listed
	listed  uint64     // when the last listing began
	at      time.Time  // the same, for shares
	senders map[content.SessionID][]string
	driven  map[string]int // the same of each sender
	others  map[string]int // that no node drives
	tooMany time.Time      // there are too many sessions to list; until then they are looked at one by one

	postponed []content.SessionID // discarded, to be woken
	waiting   []content.SessionID // discarded, to be looked at
}

// inCrowd reports whether many tokens wait behind this one, whose session's last driver gave it up in
// order.
func inCrowd(t *jetstream.Token) bool { return t.IsFirst() && t.Waiting() >= crowded }

// most is how many of a node's places are for senders who have some.
func most(places int) int { return max(places*7/8, 1) }

// discard discards a token if many wait and its session has no command, or if its senders have their
// share of the node.
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
		known, err = n.learn(ctx, s, began, tick, seen)
	}
	if err != nil {
		n.sparse.Line(n.log, zap.WarnLevel, "sessions with commands not listed", zap.Error(err))
	}
	how, later := leftDiscarded, &c.waiting
	switch senders := c.senders[s]; {
	case c.yields(senders, n.cfg.Capacity):
		how, later = leftPostponed, &c.postponed
	case len(senders) > 0 || !crowd: // a listing may be older than the last command
		known = false
	}
	room := len(*later) < maxDoubts
	if !known || how == leftDiscarded && !room || time.Since(began) > t.AckWait()/4 || t.Discard() != nil {
		c.count(s, 1)
		return false
	}
	if room { // else a sweep finds that it has commands
		*later = append(*later, s)
	}
	c.postpones.Store(len(c.postponed) > 0)
	n.cfg.Metrics.SessionTaken()
	n.cfg.Metrics.SessionLeft(how)
	return true
}

// learn finds out who has sent the commands of a session, unless there are too many sessions to list: then
// seen says so for the sessions that were looked at. The crowd's lock is held.
func (n *Node) learn(ctx context.Context, s content.SessionID, began time.Time, tick uint64, seen map[content.SessionID][]string) (known bool, err error) {
	c := &n.crowd
	recent := len(c.senders[s]) > 0 && time.Since(c.at) < sharesFor
	switch many := began.Before(c.tooMany); {
	case seen != nil:
		c.see(s, seen[s])
	case many: // it was taken when the list was begun
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

// lookAt returns who has sent the commands of a session, if the sessions are too many to list, and else nil.
func (n *Node) lookAt(ctx context.Context, s content.SessionID) (map[content.SessionID][]string, error) {
	n.crowd.mu.Lock()
	many := time.Now().Before(n.crowd.tooMany)
	n.crowd.mu.Unlock()
	if !many {
		return nil, nil
	}
	return n.runs.Senders(ctx, s)
}

// see notes who has sent the commands of a session that waits.
func (c *crowd) see(s content.SessionID, senders []string) {
	c.senders[s] = senders
	for _, sender := range senders {
		c.others[sender] = max(c.others[sender], 1)
	}
}

// list lists the sessions with commands, or only those that the node drives if there are too many. The
// crowd's lock is held.
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

// yields reports whether each of a session's senders has its share of the places, or has one and the others
// are kept for those who have none.
func (c *crowd) yields(senders []string, places int) bool {
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

// count adds to what the node drives, until the next listing counts again.
func (c *crowd) count(s content.SessionID, change int) {
	c.taken.Add(int64(change))
	for _, sender := range c.senders[s] {
		c.driven[sender] += change
	}
}

// leaveCrowd counts a session no more, and wakes others that were postponed: two, since another node may
// take one, or it has to wait again.
func (n *Node) leaveCrowd(s content.SessionID) {
	n.crowd.mu.Lock()
	defer n.crowd.mu.Unlock()
	n.crowd.count(s, -1)
	delete(n.crowd.senders, s)
	n.wakePostponed(2)
}

// wakePostponed wakes that many sessions that were postponed. The crowd's lock is held.
func (n *Node) wakePostponed(count int) {
	for _, s := range n.crowd.postponed[:min(max(count, 0), len(n.crowd.postponed))] {
		n.runs.WakeSoon(s)
		n.crowd.postponed = n.crowd.postponed[1:]
	}
	n.crowd.postpones.Store(len(n.crowd.postponed) > 0)
}

// withoutPostponed removes the sessions that were postponed from others, after waking as many as the node has
// places for.
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

// doubts looks at sessions whose tokens were discarded, and wakes those that are not at rest.
func (n *Node) doubts(ctx context.Context) {
	n.crowd.mu.Lock()
	all := n.crowd.waiting
	look := all[:min(len(all), doubtsNow)]
	n.crowd.waiting = slices.Clone(all[len(look):])
	n.crowd.mu.Unlock()
	slices.Sort(look)
	for _, s := range slices.Compact(look) {
		last, err := n.cell.Journal().Last(ctx, s)
		waiting, err2 := n.cell.Inbox().HasAny(ctx, s) // since its token was discarded
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

// rests reports whether nothing is to do for a session without commands, by its last entry.
func rests(last events.Entry) bool {
	_, deleted := events.DeletionOf(last)
	return deleted || engine.Parks(last)
}

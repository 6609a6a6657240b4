// Package direct sends calls that may run twice to workers without storing them.
//
// A call on its queue survives everything, and costs a stored write, a delivery and an acknowledgment. A call
// that may run twice need not survive: while its worker runs it, the node waits for the outcome, and
// dispatches the call if it no longer hears of it. So a call takes this way only if a worker is known to
// receive what is sent to its queue, and a worker with no free slot declines it. See ADR 27.
package direct

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/worker/task"
)

const (
	// askFor is how long a worker has to answer that it holds a call of an earlier driver.
	askFor = 300 * time.Millisecond

	// keepAsked is how long the answer is kept for Run: a driver first reads its inbox.
	keepAsked = time.Minute

	// How often a node looks for workers that receive direct calls: at first, and in the end if none answers.
	probeSoon, probeRarely = time.Second, time.Minute
)

// Node sends a node's calls to workers. It is safe for concurrent use.
type Node struct {
	tasks *jetstream.Tasks
	name  string

	mu     sync.Mutex
	calls  map[string]*call  // by ticket; a later driver of the session on this node replaces a call
	queues map[string]*queue // by name
}

// call is one that a worker may hold.
type call struct {
	queue    *queue
	said     chan bool // the last thing that a worker said: whether it holds the call
	followed bool      // Run waits for it
}

// queue is what a node knows about the workers of a queue.
type queue struct {
	receives bool      // a worker of it receives direct calls
	probe    string    // names the last probe
	next     time.Time // when to probe again
	pause    time.Duration
}

// New returns the calls of the node with that name.
func New(tasks *jetstream.Tasks, name string) *Node {
	return &Node{tasks: tasks, name: name, calls: make(map[string]*call), queues: make(map[string]*queue)}
}

// Listen receives what workers say, until ctx ends.
func (n *Node) Listen(ctx context.Context) error {
	return n.tasks.Hear(ctx, n.name, n.heard)
}

func (n *Node) heard(ticket string, held bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.calls[ticket]; c != nil {
		c.queue.hears()
		select {
		case last := <-c.said: // a renewal may overtake a refusal
			held = held && last
		default:
		}
		c.said <- held
		return
	}
	for _, q := range n.queues {
		if ticket != "" && q.probe == ticket {
			q.hears()
		}
	}
}

// hears notes that a worker receives direct calls.
func (q *queue) hears() { q.receives, q.pause = true, 0 }

// Ask asks which worker holds a call that an earlier driver sent directly. Call Run within a minute, unless
// the call has ended.
func (n *Node) Ask(x task.Task) {
	n.mu.Lock()
	c := n.add(x)
	n.mu.Unlock()
	n.tasks.Ask(x, n.name)
	time.AfterFunc(keepAsked, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.calls[x.Ticket] == c && !c.followed {
			delete(n.calls, x.Ticket)
		}
	})
}

// add adds a call. The caller holds the lock.
func (n *Node) add(x task.Task) *call {
	q := n.queues[x.Queue]
	if q == nil {
		q = &queue{}
		n.queues[x.Queue] = q
	}
	c := &call{queue: q, said: make(chan bool, 1)}
	n.calls[x.Ticket] = c
	return c
}

// Run sends a call to a worker, if it is direct, and waits while a worker holds it. It reports whether nothing
// is left to do, because ctx has ended. Otherwise dispatch the call.
func (n *Node) Run(ctx context.Context, x task.Task) (done bool) {
	c, asked := n.enter(x)
	defer n.leave(x, c)
	if asked {
		if done, heard := n.follow(ctx, c, askFor); done || heard {
			return done
		}
	}
	if !x.Direct || !n.mayBeReceived(c, x) || !n.tasks.SendDirectly(ctx, x, n.name) {
		return false
	}
	done, heard := n.follow(ctx, c, jetstream.DirectLease)
	if !done && !heard {
		n.mu.Lock()
		defer n.mu.Unlock()
		c.queue.receives = false
	}
	return done
}

// enter returns a call, and whether workers were asked about it.
func (n *Node) enter(x task.Task) (c *call, asked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, asked = n.calls[x.Ticket]
	if !asked || c.followed { // by an earlier dispatch of the attempt, which is ending
		c, asked = n.add(x), false
	}
	c.followed = true
	return c, asked
}

func (n *Node) leave(x task.Task, c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls[x.Ticket] == c {
		delete(n.calls, x.Ticket)
	}
}

// mayBeReceived reports whether a worker of the call's queue receives direct calls. If none is known, it looks
// for one.
func (n *Node) mayBeReceived(c *call, x task.Task) bool {
	n.mu.Lock()
	q, now := c.queue, time.Now()
	receives, probe := q.receives, ""
	if !receives && now.After(q.next) {
		q.pause = min(max(2*q.pause, probeSoon), probeRarely)
		q.next, q.probe = now.Add(q.pause), rand.Text()
		probe = q.probe
	}
	n.mu.Unlock()
	if probe != "" {
		n.tasks.Probe(x, n.name, probe)
	}
	return receives
}

// follow waits while a worker holds a call. It reports whether ctx has ended, and whether a worker said
// anything.
func (n *Node) follow(ctx context.Context, c *call, first time.Duration) (done, heard bool) {
	lease := time.NewTimer(first)
	defer lease.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, heard
		case held := <-c.said:
			if heard = true; !held {
				return false, heard
			}
			lease.Reset(jetstream.DirectLease)
		case <-lease.C:
			return false, heard
		}
	}
}

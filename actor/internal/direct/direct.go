// Package direct sends calls that may run twice to workers without storing them.
//
// A call on its queue survives everything, and costs a stored write, a delivery and an acknowledgment. A call
// that may run twice need not survive: while its worker runs it, the node waits for the outcome, and
// dispatches the call if it no longer hears of it. A worker with no free slot declines a call, and the server
// says if no worker is subscribed. It does not if the node may not send calls, or if someone else listens to them. So a
// node sends none until the server has answered a probe. See ADR 27.
package direct

import (
	"context"
	"sync"
	"time"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/worker/task"
)

const (
	// askFor is how long a worker has to answer that it holds a call: one of an earlier driver, or one whose
	// lease has ended.
	askFor = 300 * time.Millisecond

	// keepAsked is how long the answer is kept for Run: a driver first reads its inbox.
	keepAsked = time.Minute

	// How often a node probes whether it may send calls: at first, and in the end if there is no answer.
	probeSoon, probeRarely = time.Second, time.Minute
)

// Node sends a node's calls to workers. It is safe for concurrent use.
type Node struct {
	tasks *jetstream.Tasks
	name  string

	mu    sync.Mutex
	calls map[string]*call // by ticket; a later driver of the session on this node replaces a call

	may   bool      // the server has answered a probe, and nothing was sent in vain since
	next  time.Time // when to probe again
	pause time.Duration
}

// call is one that a worker may hold.
type call struct {
	said     chan bool // the last thing that was said about it: whether a worker holds it
	followed bool      // Run waits for it
}

// New returns the calls of the node with that name.
func New(tasks *jetstream.Tasks, name string) *Node {
	return &Node{tasks: tasks, name: name, calls: make(map[string]*call)}
}

// Listen receives what workers say, until ctx ends.
func (n *Node) Listen(ctx context.Context) error {
	return n.tasks.Hear(ctx, n.name, n.heard)
}

func (n *Node) heard(ticket string, held bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.calls[ticket]
	switch {
	case ticket == jetstream.Probed:
		n.may, n.pause = true, 0
		return
	case c == nil:
		return
	}
	select {
	case last := <-c.said: // a renewal may overtake a refusal
		held = held && last
	default:
	}
	c.said <- held
}

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
	c := &call{said: make(chan bool, 1)}
	n.calls[x.Ticket] = c
	return c
}

// Run sends a call to a worker, if it is direct, and waits while a worker holds it. It reports whether nothing
// is left to do, because ctx has ended. Otherwise dispatch the call.
func (n *Node) Run(ctx context.Context, x task.Task) (done bool) {
	c, asked := n.enter(x)
	defer n.leave(x, c)
	if asked {
		if done, heard := n.follow(ctx, x, c, true); done || heard {
			return done
		}
	}
	switch {
	case ctx.Err() != nil:
		return true
	case !x.Direct || !n.maySend() || !n.tasks.SendDirectly(ctx, x, n.name):
		return false
	}
	done, heard := n.follow(ctx, x, c, false)
	if !done && !heard {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.may = false
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

// maySend reports whether the node may send calls to workers. If that is not known, it sends a probe.
func (n *Node) maySend() bool {
	n.mu.Lock()
	may, now, probe := n.may, time.Now(), false
	if !may && now.After(n.next) {
		n.pause = min(max(2*n.pause, probeSoon), probeRarely)
		n.next, probe = now.Add(n.pause), true
	}
	n.mu.Unlock()
	if probe {
		n.tasks.Probe(n.name)
	}
	return may
}

// follow waits while a worker holds a call. It reports whether ctx has ended, and whether anything was
// said. When a lease ends, follow asks whether the call is held: renewals may have been lost, or this process
// may have been stopped for a while. asked says that workers have just been asked.
func (n *Node) follow(ctx context.Context, x task.Task, c *call, asked bool) (done, heard bool) {
	first := jetstream.DirectLease
	if asked {
		first = askFor
	}
	lease := time.NewTimer(first)
	defer lease.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, heard
		case held := <-c.said:
			if heard = true; !held {
				return ctx.Err() != nil, heard
			}
			asked = false
			lease.Reset(jetstream.DirectLease)
		case <-lease.C:
			if asked {
				return ctx.Err() != nil, heard
			}
			asked = true
			n.tasks.Ask(x, n.name)
			lease.Reset(askFor)
		}
	}
}

package turnlogtest

import (
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/testing/faultproxy"
)

// Fault is the name of a fault of the node or the worker that New started.
type Fault string

// The faults. All but a kill last until they are ended.
const (
	NodeKilled Fault = "node_killed" // it is cut off for good, and another one takes over
	NodeFrozen Fault = "node_frozen" // messages in both directions wait, and then arrive at once
	NodeCut    Fault = "node_cut"    // its connection breaks, and it cannot connect
	NodeDeaf   Fault = "node_deaf"   // it can send but not receive: an entry is stored, and the node does not know

	WorkerKilled Fault = "worker_killed"
	WorkerFrozen Fault = "worker_frozen"
	WorkerCut    Fault = "worker_cut"
	WorkerDeaf   Fault = "worker_deaf"
)

// Faults are all faults.
func Faults() []Fault {
	return []Fault{NodeKilled, NodeFrozen, NodeCut, NodeDeaf, WorkerKilled, WorkerFrozen, WorkerCut, WorkerDeaf}
}

// Faulty connects the node and the worker through a proxy, so that [Deployment.Inject] can cause faults.
func Faulty() Option { return func(o *options) { o.faulty = true } }

// Inject causes a fault and returns a function that ends it. All faults except a kill need [Faulty]. After it was cut off or
// deaf, a process connects again, which works only outside of bubbles.
func (d *Deployment) Inject(f Fault) (end func()) {
	d.T.Helper()
	if !slices.Contains(Faults(), f) {
		d.T.Fatalf("no fault is called %q: use one of %v", f, Faults())
	}
	process, what, _ := strings.Cut(string(f), "_")
	current := &d.node
	if process == "worker" {
		current = &d.worker
	}
	if what == "killed" {
		d.kill(current)
		return func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case *current == nil || (*current).Proxy == nil:
		d.T.Fatalf("%s: New started no %s, or without the option Faulty", f, process)
	case d.bubble && what != "frozen":
		d.T.Fatalf("%s: a process cannot connect again in a bubble", f)
	}
	network := (*current).Proxy
	switch what {
	case "cut":
		network.Refuse(true)
		network.Cut()
	case "frozen":
		network.Hold(faultproxy.ToServer, true)
		network.Hold(faultproxy.ToClient, true)
	case "deaf":
		network.Swallow(faultproxy.ToClient, true)
	}
	return network.Heal
}

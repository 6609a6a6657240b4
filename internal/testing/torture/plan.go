package torture

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. A fault of connections hits all connections of one node, worker,
// client or observer.
const (
	NodeKilled   Kind = "node_killed"   // its connections are cut for good; another node starts a while later
	WorkerKilled Kind = "worker_killed" // the same; what its tools had not done yet is never done
	NodeDrained  Kind = "node_drained"  // it ends as SIGTERM ends it, when another node has started
	NodeFrozen   Kind = "node_frozen"   // its traffic is held for a while and then arrives at once: another node may own its sessions by then
	WorkerFrozen Kind = "worker_frozen" // the same for a worker

	ConnectionsCut    Kind = "connections_cut"    // connections are reset and may reconnect at once
	ConnectionsSlowed Kind = "connections_slowed" // bytes take 20 to 200 ms longer each way for a while
	AcksSwallowed     Kind = "acks_swallowed"     // answers are lost for a while: a publish is stored and its ack never arrives

	LeaderStepdown Kind = "leader_stepdown" // the leader of a stream, or of its consumer, steps down
	ServerStopped  Kind = "server_stopped"  // a server is shut down without lame-duck mode and restarted on its store

	// A stream other than JOURNAL loses what was stored last, as in a power failure or from an old
	// backup, or it is deleted and created again.
	StreamRolledBack Kind = "stream_rolled_back"
	// A client or a worker sends invalid bytes, huge inputs, forged reports and useless wakes.
	HostileSender Kind = "hostile_sender"
)

// weights returns the relative frequency of each kind.
func weights() map[Kind]int {
	return map[Kind]int{
		NodeKilled: 3, WorkerKilled: 3, NodeDrained: 1, NodeFrozen: 1, WorkerFrozen: 1,
		ConnectionsCut: 3, ConnectionsSlowed: 2, AcksSwallowed: 2,
		LeaderStepdown: 5, ServerStopped: 2,
		StreamRolledBack: 3, HostileSender: 2,
	}
}

// needsServers reports whether only the owner of the servers can cause the fault.
func needsServers(k Kind) bool { return k == LeaderStepdown || k == ServerStopped }

// Kinds lists all kinds, in a fixed order.
func Kinds() []Kind { return possible(false) }

// possible lists the kinds in a fixed order: all, or those that a client can cause.
func possible(clientsOnly bool) []Kind {
	var out []Kind
	for k := range weights() {
		if !clientsOnly || !needsServers(k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// Fault is one fault of a plan.
type Fault struct {
	At     time.Duration // since the sessions were running
	Kind   Kind
	Length time.Duration // until it ends, if it lasts
	Pick   uint64        // decides its target
	Target string        // the target, once it has happened
}

// String renders the fault in one line.
func (f Fault) String() string {
	target := f.Target
	if target == "" {
		target = "a process"
	}
	return fmt.Sprintf("%6.2fs %-18s %s, for %v", f.At.Seconds(), f.Kind, target, f.Length.Round(time.Millisecond))
}

// plan returns the faults of a run. The kinds come from a deck that is reshuffled when it
// is empty, so that a run of half a minute has all of them.
func plan(seed uint64, kinds []Kind, d, gap time.Duration) []Fault {
	dice := diceOf(seed, "plan")
	var deck []Kind
	var out []Fault
	for at := time.Duration(0); at < d; at += between(dice, gap/3, gap*5/3) {
		if len(deck) == 0 {
			deck = shuffled(dice, kinds)
		}
		f := Fault{At: at, Kind: deck[0], Pick: dice.Uint64()}
		f.Length = between(dice, 300*time.Millisecond, 2500*time.Millisecond)
		if f.Kind == NodeFrozen || f.Kind == WorkerFrozen {
			f.Length = between(dice, 3*time.Second, 7*time.Second)
		}
		deck, out = deck[1:], append(out, f)
	}
	return out
}

func shuffled(dice *rand.Rand, kinds []Kind) []Kind {
	var deck []Kind
	for _, k := range kinds {
		for range weights()[k] {
			deck = append(deck, k)
		}
	}
	dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// diceOf returns the random numbers for one purpose, independent of other purposes.
func diceOf(seed uint64, purpose ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, purpose...)              // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // repeatable, not secret
}

func between(dice *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(dice.Int64N(int64(to-from)))
}

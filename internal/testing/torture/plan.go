package torture

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a sort of fault.
type Kind string

// The kinds of faults. Who is hit by one about connections is one node, worker, client
// or observer, with all connections that it has.
const (
	NodeKilled   Kind = "node_killed"   // its connections are cut for good and its memory is dropped; another one starts a while later
	WorkerKilled Kind = "worker_killed" // the same; whatever its tools had not yet done is never done
	NodeFrozen   Kind = "node_frozen"   // nothing reaches it or leaves it for a while, then all of it does at once: its lease may be another's by then
	WorkerFrozen Kind = "worker_frozen" // the same for a worker

	ConnectionsCut    Kind = "connections_cut"    // somebody's connections are reset; they may be made again at once
	ConnectionsSlowed Kind = "connections_slowed" // somebody's bytes take 20 to 200 ms longer each way for a while
	AcksSwallowed     Kind = "acks_swallowed"     // somebody is heard but hears nothing for a while: a publish is stored and its ack never comes

	LeaderStepdown Kind = "leader_stepdown" // the leader of a stream, or of its consumer, is told to hand over
	ServerStopped  Kind = "server_stopped"  // a server is shut down at once, without lame-duck mode, and started again on its store
)

// weights say how often each kind comes among the others.
func weights() map[Kind]int {
	return map[Kind]int{
		NodeKilled: 3, WorkerKilled: 3, NodeFrozen: 1, WorkerFrozen: 1,
		ConnectionsCut: 3, ConnectionsSlowed: 2, AcksSwallowed: 2,
		LeaderStepdown: 5, ServerStopped: 2,
	}
}

// needsServers tells the kinds that only whoever runs the servers can cause.
func needsServers(k Kind) bool { return k == LeaderStepdown || k == ServerStopped }

// Kinds lists all kinds, in a fixed order.
func Kinds() []Kind { return possible(false) }

// possible lists the kinds, in a fixed order: all, or those that a client can cause.
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
	At     time.Duration // since the beginning
	Kind   Kind
	Length time.Duration // until it is mended, where it can be
	Pick   uint64        // decides whom it hits
	Whom   string        // who that was, once it is done
}

// String renders the fault in one line.
func (f Fault) String() string {
	whom := f.Whom
	if whom == "" {
		whom = "somebody"
	}
	return fmt.Sprintf("%6.2fs %-18s %s, for %v", f.At.Seconds(), f.Kind, whom, f.Length.Round(time.Millisecond))
}

const (
	firstFault = time.Second // sessions are under way by then
	minGap     = 250 * time.Millisecond
	maxGap     = 1250 * time.Millisecond
)

// plan deals out the faults of a run. The kinds come from a deck that is shuffled anew
// when it is used up, so that none is left out of a run of half a minute.
func plan(seed uint64, kinds []Kind, d time.Duration) []Fault {
	dice := diceOf(seed, "plan")
	var deck []Kind
	var out []Fault
	for at := firstFault; at < d; at += between(dice, minGap, maxGap) {
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

// diceOf returns the dice for one purpose: what happens elsewhere does not change how
// they fall.
func diceOf(seed uint64, purpose ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, purpose...)              // a hash takes everything
	return rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // faults are to be repeated, not to be secret
}

func between(dice *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(dice.Int64N(int64(to-from)))
}

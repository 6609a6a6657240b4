// Package chaos runs deployments whose servers, processes and connections fail, and
// checks that Turnlog's promises hold.
//
// Every test is a run of package torture, and each checks something different. One has all
// faults of a plan that is derived from a seed. In another, additional clients record histories
// of single operations while leaders move and servers restart, and a linearizability checker
// checks them; an operation whose outcome is unknown may take effect at any time after its
// call, or never. In others, real nats-server processes are killed with -9, or a store is full.
// And each stream except the journals is rolled back, in virtual time, while nodes are killed.
//
// All of it takes about half a minute on two cores. For more:
//
//	go test ./tests/chaos -run Torture -chaos.duration 5m -chaos.runs 20 -chaos.seed 1
//
// or make chaos. A failure prints its seed, the command that repeats it and where its journals
// are.
package chaos

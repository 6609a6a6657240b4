// Package chaos runs deployments whose servers, processes and connections fail, and
// checks what they promise.
//
// There are three kinds of proof, and none replaces another. The torture engine runs a
// whole deployment in this process under a plan of faults that a seed decides. Concurrent
// clients record histories of single operations while leaders move and servers restart,
// and a linearizability checker judges them; an operation whose outcome is unknown may
// take effect at any time after its call, or never. And real nats-server processes are
// killed with -9 under load.
//
// All of it takes about half a minute on two cores. For more:
//
//	go test ./tests/chaos -run Torture -chaos.duration 5m -chaos.runs 20 -chaos.seed 1
//
// or make chaos. A failure prints its seed and where its journals are kept.
package chaos

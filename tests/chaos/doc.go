// Package chaos has deployments survive what happens to their servers, processes and
// connections, and checks what is promised of that.
//
// The one idea: there are three kinds of proof, and none replaces another. The torture
// engine runs everything at once under a plan of faults that a seed decides, in this
// process. Histories of single operations, recorded by concurrent clients while leaders
// move and servers restart, are given to a linearizability checker; an operation of
// which nobody can tell what became of it may have happened, or not, at any time behind
// its call. And real nats-server processes are killed with -9 under a workload.
//
// Without flags everything together takes about a minute on two cores. For more:
//
//	go test ./tests/chaos -run Torture -chaos.duration 5m -chaos.runs 20 -chaos.seed 1
//
// or make chaos. A failure prints its seed and where its journals are kept.
package chaos

// Package torture runs a deployment under faults and then checks what it did.
//
// Clients, workers and observers keep their own records outside Turnlog: the commands that
// were acknowledged, the calls that ran, the entries that they saw. When the faults are over
// and the sessions have come to rest, the journals are audited and compared with those
// records. [Invariants] lists the checks.
//
// [Run] sets up a cell on a cluster of three servers in this process with files on disk, or
// on the caller's servers. With [Config.Server] a run works in a bubble of testing/synctest:
// tests/sim runs its sessions that way, in virtual time. Nodes, workers, clients and
// observers each have their own connections, through a proxy. Sessions start and end while a
// plan of faults is carried out; then all faults end and everything is checked.
//
// The seed decides the plan of faults (their order, times, lengths and targets) and the
// workload (every session's script, tools, rules and what its user does). It cannot decide
// how goroutines, sockets and disks interleave, so it may take several runs of a seed to
// see a violation again.
//
// A rollback removes what the server has acknowledged. So users note when each command was sent and
// acknowledged, and repeat the commands that were not handled and that a stream may have lost in that
// time. All other commands must be handled without being repeated.
//
// [Kind] says what each fault is. A killed node is not a killed process: its connections are
// cut for good, but it shares this process's clock and heap. Servers are stopped and
// restarted on their stores, which is not kill -9. tests/chaos and tests/integration do both
// to real processes, in addition to runs of this package.
package torture

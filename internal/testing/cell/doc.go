// Package cell starts the parts of a deployment in this process: a [Process] is a node, a
// worker or a client with its own connection, which may go through a fault proxy.
//
// Killing a process cuts it off permanently, in the middle of its work: nothing that it
// does afterward reaches a server, but it shares this process's clock and heap.
//
// Package turnlogtest builds deployments for tests on this package, and package torture
// builds deployments under random faults. It does not import package testing, so that a
// binary may use it.
package cell

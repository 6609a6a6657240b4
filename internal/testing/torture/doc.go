// Package torture runs a deployment under faults and then judges what it did.
//
// The one idea: nobody is asked whether all went well. People, workers and followers
// keep their own records outside of Turnlog: what was acknowledged to them, which calls
// they ran, which entries they saw. At the end, when the faults are over and the
// sessions have come to rest, the journals are audited and compared with those records.
//
// [Run] lives in three parts. It sets up a cell, on a cluster of three servers in this
// process with files on disk, or on servers of the caller's; nodes, workers, people and
// observers, each party on connections of its own that go through a fault proxy. Then,
// for as long as it is told to, sessions come and go while a plan of faults is carried
// out. Then everything is healed, and the checks are made; [Invariants] lists them.
//
// What the seed decides, and what it cannot: the plan of faults, which is their order,
// their moments, their lengths and whom they hit; and the workload, which is every
// session's script, tools, rules and what its person does. How goroutines, sockets and
// disks interleave is not the seed's, so the same seed takes the same blows but not
// the same steps, and a violation may need several tries to be seen again.
//
// What a fault really is, is said at its [Kind]. In particular a killed node is not a
// killed process: its connections are cut and never made again, and what it had in
// memory is dropped, so nobody hears of it any more; but it shares the process's clock
// and heap. Servers are stopped and started again on their stores, which is not
// kill -9. Both are done to real processes by tests/chaos and tests/integration.
package torture

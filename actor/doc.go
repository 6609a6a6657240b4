// Package actor runs sessions as actors over a cell of NATS JetStream: a [Node]
// takes run tokens while it has capacity, and a driver owns one session for as long
// as it holds the session's token.
//
// The one idea: a driver is a goroutine that owns one State. It handles commands
// one at a time: it decides, appends one guarded entry, folds it, and makes the
// running effects equal to the owed ones. Everything that matters is in the
// journal: kill a node at any instant, and another one continues.
//
// The guarantees, each with its mechanism:
//
//   - single-writer: every append is guarded by the journal's last sequence. A driver
//     whose append fails, for whatever reason, stops at once. The token's next holder
//     reads the outcome.
//   - no-lost-command: each lane of commands has a cursor, recorded in the entry that
//     a command causes. Live copies are a shortcut: whenever one may be missing, the
//     inbox is read from the cursors.
//   - inbox-empty-only-at-rest: while work is outstanding the last handled command
//     stays in the inbox, which is emptied only after a guarded Parked entry. So the
//     inbox alone says which sessions must run, and a lost wake does no lasting harm.
//   - at most once, for calls that require it: before a task is published again, the
//     queue is read, then the inbox. Before anything that costs or acts, the lease
//     must be fresh.
//
// There are no partitions, no membership and no election: the node that pulled the
// token drives the session. To test against the package, run a node on an embedded
// server; both work inside a synctest bubble.
package actor

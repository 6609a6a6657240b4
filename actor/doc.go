// Package actor runs sessions as actors over a cell of NATS JetStream: a [Node]
// takes run tokens as it has room, and a driver owns one session for as long as it
// holds its token.
//
// The one idea: a driver is a goroutine that owns one State. It takes commands one
// at a time; for each it decides, appends one guarded entry, folds it, and makes
// what runs equal to what is owed. Everything that matters is in the journal:
// kill a node at any instant and another one goes on from there.
//
// The guarantees, each with what holds it:
//
//   - single-writer: every append is guarded by the journal's end. A driver whose
//     append fails, for whatever reason, stops at once; the next holder of the token
//     reads what became of it.
//   - no-lost-command: commands are consumed by a cursor per lane, recorded in the
//     entry that reacts. Live copies are a shortcut; whenever one may be missing,
//     the inbox is read from the cursors.
//   - inbox-empty-only-at-rest: while work is outstanding the last handled command
//     stays in the inbox; it is emptied only after a guarded Parked entry. So the
//     inbox alone says which sessions must run, and a lost wake heals.
//   - nothing runs twice that must not: before a task is published again, the queue
//     is read, then the inbox; before anything that costs or acts, the lease must
//     be fresh.
//
// What it does not do: it has no partitions, no membership and no election; who
// drives what follows from who pulled the token. To test against it, run a node on
// an embedded server; both work inside a synctest bubble.
package actor

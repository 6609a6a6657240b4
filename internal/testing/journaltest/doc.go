// Package journaltest tests implementations of [journal.Journal], and has a journal that fails
// on demand.
//
// The contract in package journal is prose, and this is the same contract as tests. An
// implementation calls [Run] from a test; in a bubble of testing/synctest, which allows no
// subtests, it runs the [Cases] one by one. What an implementation may do differently is a
// field of [Features].
//
// [Faulty] wraps a journal and makes its appends fail as a remote store can: a conflict
// without a cause, a lost acknowledgment, an entry that is never written or arrives late.
package journaltest

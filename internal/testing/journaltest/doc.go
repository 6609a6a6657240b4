// Package journaltest tests implementations of [journal.Journal], and has a journal that fails on
// demand.
//
// An implementation calls [Run] from a test. A testing/synctest bubble allows no subtests, so there
// it runs the [Cases] one by one. [Features] lists the permitted differences.
//
// [Faulty] wraps a journal and makes its appends fail as a remote store can: a conflict without a
// cause, a lost acknowledgment, an entry that is never written or arrives late.
package journaltest

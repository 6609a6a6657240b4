// Package journaltest holds what every journal must do, and a journal that fails
// on demand.
//
// The one idea: the contract in package journal is prose, and this is the same
// contract as tests. Whoever implements [journal.Journal] calls [Run] from a test;
// where tests run in bubbles of testing/synctest, which allow no subtests, they
// take the [Cases] one by one. What an implementation may do differently is a
// field of [Features].
//
// [Faulty] wraps a journal and breaks its appends in the ways that a store across
// a network has: a conflict out of nowhere, an acknowledgement that was lost, an
// entry that was never written or arrives late.
package journaltest

// Package audit gives a second opinion on a journal: whether its entries form one chain, and
// whether their events keep the invariants of Turnlog.
//
// An [Invariant] has a name and a rule, a small function over the stream of events that knows
// nothing about how the core decided them. Tests, simulations and observers check the same
// list, and the documentation uses the same names. One invariant, replayable, also folds the
// journal with the core and compares the transcripts.
//
// Verification proves that the entries follow one another, were not changed, and keep every
// invariant that they can show. It cannot prove that a journal is complete: with its end cut
// off, a journal is still intact. To detect that, compare the head in the [Report] with one
// that is stored elsewhere.
//
// [Check] and [Verify] check a whole journal, a [Checker] one that is still growing. [Export]
// writes a journal as lines of JSON that can be verified without a server, and [Import] reads
// them. [Replay] folds a journal.
//
// The package reads no clock, logs nothing, and writes only to the writer that Export gets.
package audit

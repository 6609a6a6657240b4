// Package audit checks a journal independently of the core: whether its entries form one
// chain, and whether their events keep the invariants of Turnlog.
//
// Each invariant has a name and a rule, a small function over the stream of events that does
// not depend on how the core decided them. Tests, simulations and observers check the same
// list, and ARCHITECTURE.md uses the same names. One invariant, replayable, also folds the
// journal with the core and compares the transcripts.
//
// Verification proves that the entries follow each other, were not changed, and keep every
// invariant that a journal can show. It cannot prove that a journal is complete: one whose end
// was cut off is still intact. To detect that, compare the head in the [Report] with an
// [Anchor] that is stored elsewhere.
//
// [Check] and [Verify] check a whole journal, and a [Checker] checks one that is still growing.
// [Export] writes a journal as lines of JSON that can be verified without a server, and
// [Import] reads them. [Replay] folds a journal.
//
// The package reads no clock, logs nothing, and writes only to the writer that Export gets.
package audit

// Package audit is the second opinion on a journal: whether its entries form one
// chain, and whether what they say keeps the promises that Turnlog makes.
//
// The one idea: a promise is a named [Invariant], a small function over the
// stream of facts that knows nothing of how the core reached them. Tests,
// simulations and observers run the same list, and the names are the ones that
// the documentation uses. One invariant, replayable, folds the journal with the
// core as well and compares what the two make of it.
//
// What verification proves: the entries that are there follow each other, were
// not changed, and keep every promise that can be judged from them. What it
// cannot prove: that the journal does not go on. Its end cut off leaves a shorter
// journal that is as whole as the one before; whoever needs to know compares the
// head in the [Report] with one that was kept elsewhere.
//
// [Check] and [Verify] judge a whole journal, a [Checker] one that is still
// growing. [Export] writes a journal as lines of JSON that verify without a
// server, [Import] reads them back. [Replay] folds one.
//
// The package reads no clock, logs nothing and writes nowhere but to the writer
// that Export is given.
package audit

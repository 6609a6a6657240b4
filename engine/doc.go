// Package engine is the edge that both hosts share: it performs what the core
// owes to models, tools' gatekeepers, hooks and mutators, and turns what came of
// it into reports.
//
// The one idea: whatever needs the outside world is decided here, once, and
// arrives in a report; the core records it and never asks again. A [Runner] owns
// no session and keeps nothing between calls; everything it needs comes with the
// effect. An effect that is stopped reports what it had; one whose host gives up
// reports nothing, and the next host finds it owed.
//
// A [Catalog] is what the tool sources offer at one moment: the order of the
// model's tool list, the specs, and where each call goes.
package engine

// Package engine is what every host of sessions shares: [Session.Handle] is the
// whole life of a command, [Reader] reads a session from its journal, and a
// [Runner] performs what the core owes to models, tools, hooks and mutators.
//
// The one idea: everything that needs the outside world is decided here, once, and
// arrives in a report. The core records the report and never asks again. A Runner
// owns no session and keeps nothing between calls. A stopped effect reports what it
// had. An effect whose host gives up reports nothing, and the next host finds it owed.
//
// A [Catalog] is what the tool sources offer at one moment: the model's tools, their
// specs, and where each call goes.
package engine

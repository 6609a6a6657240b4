// Package engine has the code that all hosts of sessions share. [Session.Handle] handles a command from
// start to end, [Reader] reads a session from its journal, and a [Runner] performs the effects that the
// core owes: calls of models, tools, hooks and mutators.
//
// Everything that needs the outside world happens here, once, and reaches the core in a report. The core
// records the report and never asks again. A Runner owns no session and keeps nothing between calls. A
// stopped effect reports what it had. An effect that its host abandons reports nothing, and the next host
// owes it again.
//
// A [Catalog] lists what the tool sources offer at one moment: the model's tools, their specs, and where
// each call goes.
package engine

// Package engine has the code that all hosts of sessions share. [Session.Handle] handles a command from
// start to end, and [Reader] reads a session from its journal. A [Performer] starts and stops the
// effects that the core owes, and a [Runner] performs them: calls of models, tools, hooks and mutators.
//
// Everything that needs the outside world happens here, once, and reaches the core in a report. The core
// records the report and never asks again. A Runner owns no session and keeps nothing between calls. A
// stopped effect reports what it had. An effect that its host abandons reports nothing, and the next host
// owes it again.
//
// A [Catalog] lists what the tool sources offer at one moment: the model's tools, their specs, and where
// each call goes.
package engine

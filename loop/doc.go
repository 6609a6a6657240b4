// Package loop is the pure core of an agent session: what follows from a command,
// as a function of what has happened.
//
// The one idea: a session is a value, [State], folded from its journal, and the
// whole agent loop is four verbs over it:
//
//	Decide(*State, commands.Envelope) ([]events.Event, error) // what becomes fact
//	(*State).Fold(events.Entry)                               // facts become state
//	Pending(*State) []Effect                                  // what is owed to the world now
//	Waiting(*State) Wait                                      // what the session waits for
//
// and a fork: Decide works on (*State).Fork(), so a decision that is never
// written leaves no trace.
//
// The guarantees. No clock, randomness, goroutine or I/O: time and ids arrive in
// the envelope, new ids are derived from their place. Fold never fails and holds
// no policy; policy lives in Decide and its outcome is recorded, so Decide may
// change with any release and old journals still replay. Effects are a function
// of state, so a host that has just replayed owes exactly what the dead one owed.
// An ask may be refused with a [*Rejection]; a report that is late or repeated
// decides to no events.
//
// What it does not do: talk to models, tools, people or stores. A host performs
// the effects and reports what came of them (packages effect, agent and actor).
//
// The package reads like this: decide.go dispatches, asks.go, model.go, gates.go,
// tools.go, tasks.go and reports.go take each command in, advance.go carries a
// session on until something is owed, position.go says where it stands, apply.go
// folds. The stories in testdata say what follows from what.
package loop

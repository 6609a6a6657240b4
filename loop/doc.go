// Package loop is the pure core of an agent session: a state machine that decides what follows from each
// command.
//
// A session is a value, [State], folded from its journal. The agent loop consists of four functions on it:
//
//	Decide(*State, commands.Envelope) ([]events.Event, error) // what becomes fact
//	(*State).Fold(events.Entry)                               // facts become state
//	Pending(*State) []Effect                                  // the effects that the session owes
//	Waiting(*State) commands.Wait                             // what the session waits for
//
// A host decides a command, appends the events to the journal as one entry, folds the entry, and performs
// the pending effects. Each effect ends in a report, which is a command. The owner of a State calls
// DecideAhead, which is Decide and also returns the fold, so that no event is applied twice.
//
// # Laws
//
//  1. No clock, randomness, goroutine or I/O. Time and identity arrive in the envelope; new IDs are
//     computed from their place (turn 3, round 7, call 2).
//  2. Decide changes nothing. It works on a fork and folds each event as it emits it, so later rules see
//     earlier events. A decision that is never written leaves no trace.
//  3. Policy lives in Decide, its outcome in events. Fold has no policy and never fails, so Decide may
//     change with any release while old journals still replay.
//  4. Effects are a function of state, never of the last command: a host that has just replayed owes the same
//     effects as the one that died. An effect's identity is computed from its place, so a repetition is detectable.
//  5. One function, where, returns the position of a session. Decide advances from some positions, Pending owes
//     effects at the others, so they cannot disagree.
//  6. An ask may be refused with a [*commands.Rejection]. A report is never refused: late or repeated, it
//     decides to no events. So the results of several calls may be decided together, for one entry.
//
// # Vocabulary
//
// A turn answers input. It is a sequence of rounds: one model call, then the tool calls of its reply. A
// question is what an approval asks about a call. A task is a turn with a goal; a verifier checks its work. A
// call moves to the background when the model gets a placeholder for its result; its outcome arrives later as a
// notification. A dead letter is a call whose workers were lost. Hooks may veto at named points, and mutators
// edit the transcript between rounds.
//
// # Reading order
//
// decide.go takes a command to the function that handles it: asks.go (session and input), model.go
// (replies), calls.go and approvals.go (tools and questions), tasks.go, hooks.go, policy.go. advance.go then
// moves the session from position to position (position.go) until it must wait, within the limits of limits.go.
// finish.go ends turns. apply.go, apply_calls.go and transcript.go fold the decided events into state.go and
// call.go. pending.go derives the effects (effect.go) and timers.
//
// # Ownership
//
// One owner folds a State; others get a Fork. This package performs no effects. Packages agent and actor are its
// hosts, package engine performs the effects, package snapshot stores a State, and package audit checks the
// invariants of any journal.
//
// # Testing
//
// testdata holds scripts: commands, and the exact events that follow; package internal/testing/looptest describes
// their language. Add one for any change in behavior, run the tests with -update and review the diff. Random
// sessions check that replay gives the same state, effects and waits, that no input is lost, and that package audit
// finds nothing.
package loop

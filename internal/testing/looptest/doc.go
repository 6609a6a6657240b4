// Package looptest runs scripts against the core: what a session receives, and exactly which
// events follow.
//
// A script is text, so people can read it before they run it, and can add one that a
// simulation found to the scripts in testdata. It is a list of blocks that end with an empty
// line: statements, a line of four dashes, and what followed. A long statement continues in
// indented lines. [Play] runs a script and returns it with what happened, to compare or to
// keep.
//
// Most statements are short, because attempts, effects and waits default to those of the
// state. Three are complete, for scripts that programs write: tell is any command in JSON;
// record is an entry as it is in a journal, whether or not the core would decide it; offer
// takes a catalog in JSON too. [Script] writes them from a journal and its commands, so a
// failure of a simulation or a deployment can be reproduced without either.
//
// A [Session] checks what must hold in every script: Decide does not change the state, a
// replay of the journal gives the same state, a repeated command does nothing, a session is
// never stuck, and package audit finds no violation.
package looptest

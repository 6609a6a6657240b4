// Package looptest tells stories to the core: scripts that say what a session is
// told, and exactly what becomes fact.
//
// The one idea: a script is text, so that a story is read before it is run, and one
// that a machine found is pasted among those that people wrote. It is a list of
// blocks, with an empty line behind each: statements, a line of four dashes, and what
// followed. A statement that needs more than a line goes on in indented ones. [Play]
// runs a script and returns it with what happened, to be compared or kept.
//
// Most statements are short: what names an attempt, an effect or a wait is taken from
// the state. Three say everything, for those that machines write: tell is any command,
// in JSON; record is an entry as it stands in a journal, whatever the core thinks of
// it; offer takes a catalog in JSON too. [Script] writes them from a journal and the
// commands that led to it, so whatever a simulation or a deployment broke can be seen
// again without it.
//
// A [Session] holds what every story must: Decide only looks, whoever reads the
// journal knows the same, a repeated command does nothing, a session is never stuck,
// and package audit finds no promise broken.
package looptest

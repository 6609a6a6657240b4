// Package agentfile reads agents that are written down: one YAML file says what
// an agent is made of, and every host makes the same agent of it.
//
// The one idea: a file becomes a [Definition] that is complete in itself. What it
// takes from other files (prompts, schemas) is read in when it is loaded, and its
// [Definition.Version] is the digest of the whole. So a journal can hold the
// definition that its session began with, and no later edit changes a session
// that runs.
//
// Who runs what: [Definition.Agent] is for a program that runs an agent itself, by
// package agent. [Host] is for the nodes of a deployment; it finds agents by name, in
// a [Folder] or wherever else a [FindFunc] looks. What an agent needs where its tools
// run is told by [Servers], [Skills] and [Delegates].
//
// Reading is strict: what is no YAML, an unknown key, a value of the wrong kind, and a word
// or number that cannot be are each a [Problem] with its line. All are reported at once,
// but for what only follows from another. What only a program knows, which models and tools
// there are, it says by [Known]. [Schema] is the same rules for editors, and
// [Reference] for people.
//
// To test an agent of one's own, parse its file and run it with a scripted model; the
// example of [Definition.Agent] does.
//
// What it says of its tools ([Definition.Terms]) every host goes by. What its calls may do
// with paths, programs and servers is held where they run: in process, or by the workers,
// which the driver tells with each call. Its hooks are commands, so a [Host] runs those of
// its operator's own files only, unless it is told otherwise; of an agent that somebody
// sent or published it says so when the session is opened.
//
// A definition says nothing about a machine: what a worker permits comes on top. Secrets
// are named (env:NAME, file:PATH), never held.
package agentfile

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
// Reading is strict. A file that is not YAML, an unknown key and a value of the wrong
// kind are a [Problem] with its line, which ends the reading; of words and numbers that
// cannot be, all are reported at once. [Schema] is the same rules for editors, and [Reference] for
// people.
//
// To test an agent of one's own, parse its file and run it with a scripted model; the
// example of [Definition.Agent] does.
//
// A definition says nothing about a machine: which paths and programs tools may
// touch is for the worker that runs them to say. Secrets are named (env:NAME,
// file:PATH), never held.
package agentfile

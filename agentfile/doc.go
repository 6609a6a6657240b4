// Package agentfile reads agents that are written down: one YAML file says what
// an agent is made of, and every host makes the same agent of it.
//
// The one idea: a file becomes a [Definition] that is complete in itself. What it
// takes from other files (prompts, schemas) is read in when it is loaded, and its
// [Definition.Version] is the digest of the whole. So a journal can hold the
// definition that its session began with, and no later edit changes a session
// that runs.
//
// Reading is strict. An unknown key, a value of the wrong kind, and a word or
// number that cannot be are each a [Problem] with its line; all of them are
// reported at once. [Schema] is the same rules for editors, and [Reference] for
// people.
//
// A definition says nothing about a machine: which paths and programs tools may
// touch is for the worker that runs them to say. Secrets are named (env:NAME,
// file:PATH), never held.
package agentfile

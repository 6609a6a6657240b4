// Package agentfile reads agents from files: one YAML file defines an agent, and every
// host makes the same agent from it.
//
// A file becomes a complete [Definition]: it includes the files that the agent file names
// (prompts, schemas), and its [Definition.Version] is the digest of everything. So a
// journal can hold the definition with which its session began, and a later edit does not
// change a running session.
//
// [Definition.Agent] is for a program that runs an agent itself, with package agent.
// [Host] is for the nodes of a deployment; it finds agents by name, in a [Folder] or with
// any other [FindFunc]. [Servers], [Skills] and [Delegates] return what an agent needs
// where its tools run.
//
// schema.json defines which files are valid; [Schema] returns it for editors. Reading is
// strict: each unknown key and each value of the wrong type is a [Problem] with its line,
// and all problems of a step (syntax, schema, meaning) are reported at once. [Known] adds
// checks that only the program can make, such as of models and tools.
//
// Every host applies a definition's overrides of tools ([Definition.Terms]). Permissions
// about paths, programs and servers are enforced where calls run. Hooks are commands, so a
// [Host] runs only hooks from its operator's files unless it is configured otherwise.
//
// A definition contains nothing about a machine: a worker's own limits still apply.
// Secrets are references (env:NAME, file:PATH), never values.
//
// To test your own agent, parse its file and run it with a scripted model, like the
// example of [Definition.Agent].
package agentfile

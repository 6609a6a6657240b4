// Package conformance holds every shape of deployment to the same scenarios.
//
// The one idea: a scenario is a file, with a scripted model, scripted tools, what
// the host does, the steps that it must get and the transcript that must remain.
// It runs in process with each task manager, in a deployment over JetStream, and
// in a deployment whose node dies behind every single append in turn. Whatever
// the shape, the steps and the transcript are the same.
//
// README.md says which rule is held by which scenario.
package conformance

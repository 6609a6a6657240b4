// Package conformance runs the same scenarios in every shape of deployment.
//
// A scenario is a file with a scripted model, scripted tools, what the host does, the steps
// that it must get, and the transcript that must result. It runs in process with each task
// manager, in a deployment over JetStream, and in a deployment whose node dies after every
// single append in turn. The steps and the transcript are the same in all of them.
//
// README.md lists the rules and the scenarios that test them.
package conformance

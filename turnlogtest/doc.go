// Package turnlogtest tests agents on a whole deployment inside the test: a NATS server, a node, a
// worker and a client, in one process, with models that follow scripts.
//
// [New] returns a running [Deployment], which ends with the test. [Deployment.Script] opens a session
// whose model follows a script, and a [Session] has what a test says about it:
//
//	d := turnlogtest.New(t, turnlogtest.Tools(weather))
//	s := d.Script(`replies: [{calls: [{name: weather, input: {city: Oslo}}]}, {text: It is sunny.}]`)
//	s.Say("How is the weather in Oslo?")
//	s.ExpectCalls(`weather {"city":"Oslo"} → ok: sunny`)
//	s.ExpectReply("It is sunny.")
//
// [Bubble] runs a test in virtual time, where an hour takes milliseconds. [EveryCrash] runs a scenario
// there once for each entry that it appends, kills the node after that entry, and requires the same
// outcome each time. [Deployment.Inject] causes faults of the network by name.
//
// Every audit of a journal that the package reads is part of the test: a broken invariant fails it.
//
// The node and the worker are those of a deployment, so [Node] and [Worker] configure everything that
// they have: hooks, policies, agent files, models of your own.
package turnlogtest

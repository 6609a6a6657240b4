// Package turnlogtest tests agents on a whole deployment inside the test: a NATS server, a node, a
// worker and a client, in one process, with models that follow scripts.
//
// [New] returns a running [Deployment], which ends with the test. [Deployment.Script] opens a session
// whose model follows a script. A test talks to the [Session] and checks it:
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
// The package audits every journal that it reads: a broken invariant fails the test.
//
// The node and the worker are the same as in a deployment, so [Node] and [Worker] can configure all of
// it: hooks, policies, agent files, your own models.
package turnlogtest

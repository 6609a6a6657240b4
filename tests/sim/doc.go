// Package sim drives whole sessions through everything that may happen to them,
// in an order that a seed decides.
//
// The one idea: a run is a world in a bubble of testing/synctest. In it, hosts
// step sessions by hand over a journal that loses, delays and refuses writes,
// with a model, tools, permissions, hooks and mutators that do whatever they may.
// Hosts die in the middle, are fenced by their successors, ask at the wrong
// moment and leave. Then the world calms down, every session has to come to rest,
// and its journal, the driver's view of it and the list of what was really done
// are compared. Timers, retries and hangs take no real time.
//
// What is checked: package audit finds nothing; a fold from scratch is what the
// driver shows; accepted input is in the journal once, and reaches the
// transcript once; every call is answered once; nothing that is paid for is done
// twice under one identity, or before the journal says so; nothing is stuck; no
// goroutine is left.
//
// Cells are the same over JetStream: a server, nodes and workers in the bubble, which
// are killed and come back, results that are told twice or late, and people who decide
// or do not.
//
// A failure prints its seed, what the hosts did, and a script for each session: put
// into loop/testdata it is run with the others there, and shows what is wrong with the
// journal without the world around it. To see the whole again: go test ./tests/sim
// -sim.seed=N. A seed decides what happens, but not which of two things that happen at
// one instant is first, so a failure may need several tries: -sim.runs=100 repeats the
// seed so often. -sim.from, -sim.runs and -sim.cells say how many seeds to try, from
// which on; make sim tries thousands. With -v the tests show how often each path was
// taken; some must be in every run.
package sim

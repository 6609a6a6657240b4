// Package sim runs whole sessions through random events whose order a seed decides.
//
// A run is a world in a bubble of testing/synctest. Hosts step sessions over a journal that loses, delays
// and refuses writes, with a model, tools, permissions, hooks and mutators that do anything they may.
// Hosts crash in the middle and are fenced by their successors. Input from people comes from
// looptest.Person, as in the random sessions of package loop, and some of it arrives at the wrong moment.
// Then the faults end, every session has to come to rest, and its journal, the driver's view and the list
// of calls that ran are compared. Timers, retries and hangs pass in virtual time.
//
// The checks: package audit finds nothing; a fold from scratch equals the driver's view;
// accepted input is in the journal once and reaches the transcript once; every call is
// answered once; nothing that is paid for runs twice under one identity, or before the journal
// records it; nothing is stuck; no goroutine leaks.
//
// Cells are runs of package torture in a bubble, with the model, tools, permissions, hooks and
// mutators of this package and with results that are repeated, late or forged. Nodes, workers
// and connections fail, and minutes pass in virtual time.
//
// A failure prints its seed, what the hosts did, and a script for each session. In
// loop/testdata the script reproduces the problem without the world. To run the
// seed again: go test ./tests/sim -sim.seed=N. A seed does not decide which of two simultaneous
// events comes first, so a failure may need several tries: -sim.runs=100 repeats the seed.
// -sim.from, -sim.runs and -sim.cells set the range of seeds; make sim tries thousands. With -v
// the tests show how often each path was taken. Some paths must be taken in every run.
package sim

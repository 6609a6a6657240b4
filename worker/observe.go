package worker

import (
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Observer receives the events of tasks, for metrics. Its methods are called from
// many goroutines and return at once. For a claim they come in this order:
// Claimed, then Started and Finished if its tool ran, then Settled.
type Observer interface {
	// Claimed reports a claim; delivery counts the deliveries of the task.
	Claimed(t task.Task, delivery int)
	// Started reports that the tool begins.
	Started(t task.Task)
	// Finished reports the result of the tool, which is not always what is sent.
	Finished(t task.Task, r tool.Result)
	// Settled reports the fate of the claim.
	Settled(t task.Task, f Fate)
}

// Fate is how a claim ended.
type Fate string

// The fates of claims.
const (
	Reported   Fate = "reported"   // an outcome was reported, of a run or in place of one
	Asked      Fate = "asked"      // nothing was done, and a person was asked
	Lost       Fate = "lost"       // reported as lost: the outcome is unknown
	Released   Fate = "released"   // it went back for another worker
	Gone       Fate = "gone"       // its lease was lost; another worker has it
	Unreported Fate = "unreported" // the report could not be sent; the call is redelivered
)

// noObserver ignores everything.
type noObserver struct{}

func (noObserver) Claimed(task.Task, int)          {}
func (noObserver) Started(task.Task)               {}
func (noObserver) Finished(task.Task, tool.Result) {}
func (noObserver) Settled(task.Task, Fate)         {}

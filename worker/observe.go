package worker

import (
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Observer is told what becomes of tasks, for metrics. Its methods are called from
// many goroutines and return at once. For a claim they come in this order:
// Claimed, then Started and Finished if its tool ran, then Settled.
type Observer interface {
	// Claimed tells of a claim; delivery counts how often the task was handed out.
	Claimed(t task.Task, delivery int)
	// Started tells that the tool begins.
	Started(t task.Task)
	// Finished tells what the tool brought, which is not always what is reported.
	Finished(t task.Task, r tool.Result)
	// Settled tells what became of the claim.
	Settled(t task.Task, f Fate)
}

// Fate is what became of a claim.
type Fate string

// The fates of claims.
const (
	Reported   Fate = "reported"   // an outcome was reported, of a run or in place of one
	Asked      Fate = "asked"      // nothing was done, and a person was asked
	Lost       Fate = "lost"       // it was reported that nobody knows the outcome
	Released   Fate = "released"   // it went back for another worker
	Gone       Fate = "gone"       // its lease was lost; another worker sees to it
	Unreported Fate = "unreported" // the report could not be sent; the call comes back
)

// nobody observes nothing.
type nobody struct{}

func (nobody) Claimed(task.Task, int)          {}
func (nobody) Started(task.Task)               {}
func (nobody) Finished(task.Task, tool.Result) {}
func (nobody) Settled(task.Task, Fate)         {}

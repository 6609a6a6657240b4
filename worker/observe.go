package worker

import (
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Observer receives the events of tasks, for metrics. Its methods are called from many goroutines
// and must return at once. The order for a claim: Claimed, then Started and Finished if its tool
// ran, then Settled.
type Observer interface {
	// Claimed reports a claim; delivery is 1 for the task's first.
	Claimed(t task.Task, delivery int)
	// Started reports that the tool starts.
	Started(t task.Task)
	// Finished reports the result of the tool, which is not always the report.
	Finished(t task.Task, r tool.Result)
	// Settled reports how the claim ended.
	Settled(t task.Task, f Fate)
	// Forged reports a task that the queue removed because no driver signed it, although one must.
	Forged()
}

// Fate is how a claim ended.
type Fate string

// The fates of claims.
const (
	Reported   Fate = "reported"   // an outcome was reported, whether or not the tool ran
	Asked      Fate = "asked"      // nothing was done; a question was reported
	Lost       Fate = "lost"       // reported as lost: the outcome is unknown
	Released   Fate = "released"   // returned to the queue for another worker
	Gone       Fate = "gone"       // its lease was lost; another worker has it
	Unreported Fate = "unreported" // the report could not be sent; the call is redelivered
)

// noObserver ignores everything.
type noObserver struct{}

func (noObserver) Claimed(task.Task, int)          {}
func (noObserver) Started(task.Task)               {}
func (noObserver) Finished(task.Task, tool.Result) {}
func (noObserver) Settled(task.Task, Fate)         {}
func (noObserver) Forged()                         {}

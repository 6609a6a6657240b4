package audit

import (
	"fmt"

	"github.com/turnlog/turnlog/events"
)

// gateHeld: verifications of a task are numbered, run one at a time, and are at most one more
// than its retries. Work is retried, and called verified, only by their result. Memory is
// recalled and stored once per task.
func gateHeld() rule {
	var g taskGate
	return func(f fact) {
		switch ev := f.event.(type) {
		case events.TaskStarted:
			if g.open {
				f.fail("a task starts inside another")
			}
			g = taskGate{open: true, retries: ev.Spec.MaxRetries}
		case events.MemoryRecalled:
			g.once(f, "memory is recalled", &g.recalled)
		case events.VerifyStarted:
			g.verify(f, ev)
		case events.VerifyFinished:
			g.verdict(f, ev)
		case events.InputAccepted:
			if ev.Origin == events.FromVerifier && (!g.judged || g.passed) {
				f.fail("work is sent back, but no verification failed")
			}
		case events.MemoryStored:
			g.once(f, "memory is stored", &g.stored)
		case events.TaskFinished:
			g.finish(f, ev)
		case events.TurnFinished:
			if g.open {
				f.fail("%s finishes while its task is open", ev.Turn)
			}
		}
	}
}

// taskGate is the state of the open task.
type taskGate struct {
	open              bool
	retries, attempts int
	running, judged   bool
	passed            bool
	recalled, stored  bool
}

func (g *taskGate) once(f fact, what string, done *bool) {
	switch {
	case !g.open:
		f.fail("%s, but no task is open", what)
	case *done:
		f.fail("%s twice for one task", what)
	}
	*done = true
}

func (g *taskGate) verify(f fact, ev events.VerifyStarted) {
	g.attempts++
	switch {
	case !g.open:
		f.fail("verification %d starts, but no task is open", ev.Attempt)
	case g.running:
		f.fail("verification %d starts while one is running", ev.Attempt)
	case ev.Attempt != g.attempts:
		f.fail("verification %d starts where verification %d is due", ev.Attempt, g.attempts)
	case g.attempts > g.retries+1:
		f.fail("verification %d starts for a task with %d retries", ev.Attempt, g.retries)
	}
	g.running, g.judged = true, false
}

func (g *taskGate) verdict(f fact, ev events.VerifyFinished) {
	passes := ev.Status == "passed" || ev.Status == "skipped"
	switch {
	case ev.Success != passes:
		f.fail("a verification is %s, with success %t", ev.Status, ev.Success)
	case g.judged, !g.running && ev.Status != "skipped":
		f.fail("verification %d has a verdict, %s", ev.Attempt, g.state())
	case ev.Attempt != g.attempts:
		f.fail("verification %d has a verdict, the one that started last is %d", ev.Attempt, g.attempts)
	}
	g.running, g.judged, g.passed = false, true, ev.Success
}

func (g *taskGate) state() string {
	if g.judged {
		return "and had one before"
	}
	return fmt.Sprintf("but did not run: task open %t", g.open)
}

func (g *taskGate) finish(f fact, ev events.TaskFinished) {
	switch {
	case !g.open:
		f.fail("a task finishes that was not started")
	case g.running:
		f.fail("the task finishes while its verification is running")
	case ev.Verified && !g.passed:
		f.fail("the task is called verified, but its gate did not pass")
	}
	*g = taskGate{}
}

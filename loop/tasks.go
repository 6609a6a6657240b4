package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Statuses of a verification.
const (
	verifyPassed    = "passed"
	verifyFailed    = "failed"
	verifySkipped   = "skipped"
	verifyCancelled = "cancelled"
)

// maxVerifierOutput is how much of a verifier's output is kept, from its end.
const maxVerifierOutput = 4000

func (d *decision) startTask(c commands.StartTask) error {
	if !d.idle() || d.queuedTask() >= 0 {
		return refuse(ReasonBusy, "a turn is open or a task is queued")
	}
	if c.Spec.Goal == "" {
		return refuse(ReasonEmptyInput, "the task has no goal")
	}
	if err := checkOptions(c.Options); err != nil {
		return err
	}
	spec := c.Spec
	goal := content.UserText(spec.Goal)
	goal.Parts = append(goal.Parts, c.Files...)
	d.emit(events.InputQueued{
		Items: []content.Item{goal}, Origin: events.FromTask,
		Task: &spec, TaskName: c.Task, Baseline: c.Baseline, Options: c.Options,
	})
	return nil
}

// startsTask opens a queued task: a new context in which planning recalls what is
// known, before the goal is merged.
func (d *decision) startsTask() bool {
	if d.Task != nil {
		return false
	}
	i := d.queuedTask()
	if i < 0 {
		return false
	}
	q := d.Queue[i]
	name := q.TaskName
	if name == "" {
		name = "task-" + string(content.TurnIDFor(d.Turns+1))
	}
	d.emit(events.TaskStarted{Task: name, Spec: *q.Task, Baseline: q.Baseline})
	return true
}

func (s *State) queuedTask() int {
	return slices.IndexFunc(s.Queue, func(q Queued) bool { return q.Task != nil })
}

// goal is what a task's turn starts with. Other input waits: the task begins in a
// context of its own.
func (d *decision) goal() merged {
	q := d.Queue[d.queuedTask()]
	return merged{items: q.Items, origin: q.Origin, options: q.Options}
}

func (d *decision) recall(c commands.ReportRecall) {
	if p, _ := d.where(); p != atPlanning || c.Task != d.Task.Name {
		return
	}
	items, problem := c.Items, c.Error
	if len(items) > 0 {
		if err := checkInput(items); err != nil {
			items, problem = nil, err.Error()
		}
	}
	d.emit(events.MemoryRecalled{Items: stripped(items)})
	if problem != "" {
		d.warn("memory_failed", problem, "")
	}
}

// gateTask sends a task whose work is done to its gate, and reports whether the
// turn goes on.
func (d *decision) gateTask(reason content.FinishReason) bool {
	if d.Task == nil {
		return false
	}
	if reason != content.Completed && reason != content.MaxTokens {
		d.closeTask(reason)
		return false
	}
	if len(d.Task.Spec.Gate) == 0 && !d.Task.Spec.GateFunc {
		d.emit(events.VerifyFinished{Success: true, Status: verifySkipped})
		return true
	}
	d.emit(events.VerifyStarted{Attempt: d.Task.Attempts + 1})
	return true
}

// verified takes in the gate's verdict: on to the report, another round with what
// the verifier said, or the end.
func (d *decision) verified(c commands.ReportVerify) {
	if d.Task == nil || !d.Task.Running || c.Task != d.Task.Name || c.Finished.Attempt != d.Task.Attempts {
		return
	}
	f := c.Finished
	f.Output = lastRunes(f.Output, maxVerifierOutput)
	switch {
	case d.Turn.Cancel != nil:
		d.finish(ending{reason: content.Cancelled})
		return
	case f.Success:
		f.Status = verifyPassed
	default:
		f.Status = verifyFailed
	}
	d.emit(f)
	if f.Success {
		return
	}
	if d.Task.Attempts <= d.Task.Spec.MaxRetries {
		text := "Verification failed. Fix these errors and try again:\n" + f.Output
		d.emit(events.InputAccepted{Turn: d.Turn.ID, Items: []content.Item{content.UserText(text)}, Origin: events.FromVerifier})
		d.steer()
		return
	}
	d.finishTask("failed")
	d.finished(d.workEnded(), nil, nil)
}

// lastRunes is the end of s, at most n characters of it.
func lastRunes(s string, n int) string {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i]&0xC0 == 0x80 {
			continue // inside a character
		}
		if n--; n == 0 {
			return s[i:]
		}
	}
	return s
}

func (d *decision) remembered(c commands.ReportMemory) {
	if p, _ := d.where(); p != atReport || c.Task != d.Task.Name {
		return
	}
	d.emit(events.MemoryStored{Error: c.Error})
	if c.Error != "" {
		d.warn("memory_failed", c.Error, "")
	}
	d.finishTask("done")
	d.finished(d.workEnded(), nil, nil)
}

// workEnded is the finish reason of a turn whose gate has spoken.
func (d *decision) workEnded() content.FinishReason {
	if d.Turn.Reply == content.MaxTokens {
		return content.MaxTokens
	}
	return content.Completed
}

// closeTask ends a task without a verdict.
func (d *decision) closeTask(reason content.FinishReason) {
	if d.Task == nil {
		return
	}
	if d.Task.Running {
		d.emit(events.VerifyFinished{Attempt: d.Task.Attempts, Status: verifyCancelled})
	}
	switch reason {
	case content.Cancelled:
		d.finishTask("cancelled")
	case content.Blocked:
		d.finishTask("blocked")
	case content.Completed, content.ToolCalls, content.MaxTokens, content.Compaction, content.Limit,
		content.Terminated, content.Errored, content.Other:
		d.finishTask("failed")
	}
}

func (d *decision) finishTask(status string) {
	t := d.Task
	d.emit(events.TaskFinished{
		Status: status, Verified: status == "done", VerifyStatus: t.Verify,
		Attempts: t.Attempts, FilesChanged: t.Changed, Summary: d.summary(),
	})
}

// summary is the text of the task's last answer.
func (s *State) summary() string {
	if s.Turn == nil || len(s.Turn.Items) == 0 {
		return ""
	}
	return s.Turn.Items[len(s.Turn.Items)-1].Text()
}

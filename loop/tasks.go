package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (d *decision) startTask(c commands.StartTask) error {
	if !d.idle() || d.queuedTask() >= 0 {
		return commands.Refuse(commands.ReasonBusy, "a turn is open or a task is queued")
	}
	goal := content.UserText(c.Spec.Goal)
	goal.Parts = append(goal.Parts, c.Files...)
	d.emit(events.InputQueued{
		Items: []content.Item{goal}, Origin: events.FromTask,
		Task: &c.Spec, TaskName: c.Task, Baseline: c.Baseline, Options: c.Options, By: d.env.By, User: d.env.User,
	})
	return nil
}

func (s *State) queuedTask() int {
	return slices.IndexFunc(s.Queue, func(q events.InputQueued) bool { return q.Task != nil })
}

func (d *decision) recall(c commands.ReportRecall) {
	if p, _ := d.where(); p != atPlanning || c.Task != d.Task.Name {
		return
	}
	items, problem := c.Items, c.Error
	if len(items) > 0 {
		if err := commands.ValidateInput(items); err != nil {
			items, problem = nil, err.Error()
		}
	}
	d.emit(events.MemoryRecalled{Items: content.Stripped(items)})
	if problem != "" {
		d.warn("memory_failed", problem, "")
	}
}

// verify sends finished work to its verifier, and reports whether the turn continues.
func (d *decision) verify(reason content.FinishReason) bool {
	switch {
	case d.Task == nil:
		return false
	case reason != content.Completed && reason != content.MaxTokens:
		d.closeTask(reason)
		return false
	case len(d.Task.Spec.Verifier) == 0 && !d.Task.Spec.VerifierFunc:
		d.emit(events.VerifyFinished{Success: true, Status: "skipped"})
	default:
		now, denied := d.mayVerify()
		switch {
		case denied != "":
			d.emit(events.VerifyFinished{Attempt: d.Task.Attempts, Exit: -1, Status: "denied", Output: denied})
			d.finishTask("failed")
		case now:
			d.emit(events.VerifyStarted{Attempt: d.Task.Attempts + 1})
		}
	}
	return true
}

// verified handles the verdict. Notes follow, or another round with the verifier's output, or the end of the task.
func (d *decision) verified(c commands.ReportVerify) {
	f := c.Finished
	if d.Task == nil || !d.Task.Running || c.Task != d.Task.Name || f.Attempt != d.Task.Attempts || d.cancelled() {
		return
	}
	output := []rune(f.Output)
	f.Output, f.Status = string(output[max(0, len(output)-maxOutput):]), "failed"
	if f.Success {
		f.Status = "passed"
	}
	d.emit(f)
	switch {
	case f.Success:
	case d.Task.Attempts <= d.Task.Spec.MaxRetries:
		text := "Verification failed. Fix these errors and try again:\n" + f.Output
		d.emit(events.InputAccepted{Turn: d.Turn.ID, Items: []content.Item{content.UserText(text)}, Origin: events.FromVerifier})
		d.steer()
	default:
		d.finishTask("failed")
	}
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
}

// finishTask ends a task after its verdict, and its turn.
func (d *decision) finishTask(status string) {
	reason := content.Completed
	if d.Turn.Reply == content.MaxTokens {
		reason = content.MaxTokens
	}
	d.taskFinished(status)
	d.finished(ending{reason: reason})
}

// closeTask ends a task without a verdict.
func (d *decision) closeTask(reason content.FinishReason) {
	if d.Task == nil {
		return
	}
	if d.Task.Running {
		d.emit(events.VerifyFinished{Attempt: d.Task.Attempts, Status: "cancelled"})
	}
	status := "failed"
	if reason == content.Cancelled || reason == content.Blocked {
		status = string(reason)
	}
	d.taskFinished(status)
}

func (d *decision) taskFinished(status string) {
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

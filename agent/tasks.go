package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Task is a goal with a gate.
type Task struct {
	Goal string // "": RunTask goes on with the open task
	// Gate verifies the work; nil: the verification is skipped. What
	// extension.Command returns is recorded and can be run after a restart; a
	// function is gone with its process, unless it is handed in again without a goal.
	Gate       extension.Verifier
	MaxRetries int    // 0: one verification
	Baseline   string // recorded with the task: what its files were like before
}

// Statuses of tasks.
const (
	TaskDone      = "done"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
	TaskBlocked   = "blocked"
)

// TaskResult is what came of a task.
type TaskResult struct {
	Status       string // done, failed, cancelled or blocked
	Summary      string // the text of its last answer
	VerifyStatus string // passed, failed, skipped, cancelled, or empty: it never came to that
	Verified     bool   // the gate passed, or there is none
	Cancelled    bool
	Attempts     int         // verifications
	FilesChanged []string    // sorted
	Turn         *TurnResult `json:"-"` // nil if no turn was started
}

// VerifyExhaustedError is returned by RunTask when the gate said no once more than
// there are retries.
type VerifyExhaustedError struct {
	Result *TaskResult
	Output string // what the gate said last
}

// Error holds the gate's last words.
func (e *VerifyExhaustedError) Error() string {
	return fmt.Sprintf("verification failed after %d attempts: %s", e.Result.Attempts, e.Output)
}

// RunTask works on a goal until the gate passes: memory is recalled, the model works
// in a context of its own, one tool at a time, and the gate's complaints go back to
// it until the retries are used up, which is a *VerifyExhaustedError. The end of ctx
// cancels the task; a cancelled task is a result, not an error. The other errors are
// those of Run. There is a result beside every error but one that says that the
// task was not started.
func (d *Driver) RunTask(ctx context.Context, t Task) (*TaskResult, error) {
	if ctx.Err() != nil {
		return &TaskResult{Status: TaskCancelled, Cancelled: true}, nil //nolint:nilerr // a cancelled task is a result
	}
	if t.Goal != "" {
		argv := extension.Argv(t.Gate)
		spec := events.TaskSpec{Goal: t.Goal, Gate: argv, GateFunc: t.Gate != nil && argv == nil, MaxRetries: t.MaxRetries}
		if err := d.Ask(ctx, commands.StartTask{Spec: spec, Baseline: t.Baseline}); err != nil {
			return nil, err
		}
	}
	if t.Goal != "" || t.Gate != nil {
		d.setGate(t.Gate)
	}
	before := d.lastTurn()
	_, err := d.toEnd(ctx, t.Goal == "")
	return d.taskEnded(before, err)
}

func (d *Driver) setGate(g extension.Verifier) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = g
}

func (d *Driver) lastTurn() content.TurnID {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Last == nil {
		return ""
	}
	return d.state.Last.Turn
}

// taskEnded turns the end of a task's turn into what RunTask returns.
func (d *Driver) taskEnded(before content.TurnID, err error) (*TaskResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.state.Last
	if last == nil || last.Turn == before || last.Task == nil {
		return nil, err // it is still open, or there was none
	}
	turn := resultOf(last)
	res := turn.Task
	res.Turn = &turn
	switch {
	case errors.Is(err, ErrCancelled):
		return res, nil
	case err == nil && res.VerifyStatus == "failed":
		return res, &VerifyExhaustedError{Result: res, Output: last.Verifier}
	}
	return res, err
}

// taskResult is what a turn's end says of its task.
func taskResult(e *loop.Ended) *TaskResult {
	t := e.Task
	if t == nil {
		return nil
	}
	return &TaskResult{
		Status: t.Status, Summary: t.Summary, VerifyStatus: t.VerifyStatus, Verified: t.Verified,
		Cancelled: t.Status == TaskCancelled, Attempts: t.Attempts, FilesChanged: t.FilesChanged,
	}
}

package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Task is a goal and how its work is verified.
type Task struct {
	Goal string // "": RunTask continues the open task
	// Verifier checks the work; nil: the work is not verified. A verifier from extension.Command is
	// recorded and can run after a restart. A Go function runs in this process, and a session of a
	// deployment waits for it. After a restart, pass the function again, without a goal.
	Verifier   extension.Verifier
	MaxRetries int    // 0: one verification
	Baseline   string // recorded with the task: the state of its files before

	Files   []content.Part      // attached to the goal
	Options *events.TurnOptions // nil: none; they restrict the task's turn
}

// Statuses of tasks.
const (
	TaskDone      = "done"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
	TaskBlocked   = "blocked"
)

// TaskResult is the outcome of a task.
type TaskResult struct {
	Status       string // done, failed, cancelled or blocked
	Summary      string // the text of its last answer
	VerifyStatus string // passed, failed, denied (by the policy or an approver), skipped, cancelled, or empty: not verified yet
	Verified     bool   // the verifier passed, or there is none
	Cancelled    bool
	Attempts     int         // number of verifications
	FilesChanged []string    // sorted
	Turn         *TurnResult `json:"-"` // nil if no turn was started
}

// VerifyExhaustedError is returned by RunTask when the verifier failed and no retries are
// left, or when it may not run.
type VerifyExhaustedError struct {
	Result *TaskResult
	Output string // of the last verification, or why there was none
}

// Error contains the output of the last verification.
func (e *VerifyExhaustedError) Error() string {
	if e.Result.VerifyStatus == "denied" {
		return "the work is not verified: " + e.Output
	}
	attempts := "attempts"
	if e.Result.Attempts == 1 {
		attempts = "attempt"
	}
	return fmt.Sprintf("verification failed after %d %s: %s", e.Result.Attempts, attempts, e.Output)
}

// RunTask works on a goal until its verifier passes. Notes are recalled, then the model works in its
// own context, one tool at a time. If the verifier fails, the model gets its output and tries again.
// When no retries are left, RunTask returns a *VerifyExhaustedError. When ctx ends, the task is
// cancelled; a cancelled task is a result, not an error. Other errors are the same as for Run. The
// result is nil only if the task was not started.
func (s *Session) RunTask(ctx context.Context, t Task) (*TaskResult, error) {
	if ctx.Err() != nil {
		return &TaskResult{Status: TaskCancelled, Cancelled: true}, nil //nolint:nilerr // a cancelled task is a result
	}
	turn, err := s.SubmitTask(ctx, t)
	if err != nil {
		return nil, err
	}
	return turn.WaitTask(ctx)
}

// WaitTask runs the turn of a task to its end, as RunTask does.
func (t *Turn) WaitTask(ctx context.Context) (*TaskResult, error) {
	_, err := t.Wait(ctx)
	end := t.ended()
	if end == nil || end.Task == nil {
		return nil, err // the turn is still open, or had no task
	}
	out := resultOf(&end.Ended)
	res := out.Task
	res.Turn = &out
	switch {
	case errors.Is(err, ErrCancelled):
		return res, nil
	case err == nil && (res.VerifyStatus == "failed" || res.VerifyStatus == "denied"):
		return res, &VerifyExhaustedError{Result: res, Output: end.Verifier}
	}
	return res, err
}

// SubmitTask starts the task and returns its turn. Without a goal, it returns the turn of
// the open task.
func (s *Session) SubmitTask(ctx context.Context, t Task) (*Turn, error) {
	if t.Goal == "" {
		if t.Verifier != nil {
			s.backend.SetVerifier(t.Verifier)
		}
		return s.turn(ctx, Input{})
	}
	argv := extension.Argv(t.Verifier)
	spec := events.TaskSpec{Goal: t.Goal, Verifier: argv, VerifierFunc: t.Verifier != nil && argv == nil, MaxRetries: t.MaxRetries}
	turn := s.newTurn()
	turn.task = true
	turn, err := s.begin(ctx, turn, ulid.Make().String(), commands.StartTask{
		Spec: spec, Baseline: t.Baseline, Files: t.Files, Options: t.Options,
	})
	if err == nil { // a task that is refused leaves the open one its verifier
		s.backend.SetVerifier(t.Verifier)
	}
	return turn, err
}

// taskResult returns the outcome of a turn's task, or nil.
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

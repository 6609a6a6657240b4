package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Verify runs a task's gate in workdir: the command of the task or, if it has none,
// the function fn, which is nil in a process that did not start the task. It
// returns nil if ctx ended for any other cause than ErrStop: the gate is owed again.
func (r *Runner) Verify(ctx context.Context, e loop.Verify, fn extension.Verifier, workdir string) commands.Command {
	if len(e.Gate) > 0 {
		fn = extension.Command(e.Gate...)
	}
	if fn == nil {
		return commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{
			Attempt: e.Attempt, Exit: -1, Output: "the gate of this task is a function of a process that is gone",
		}}
	}
	start := time.Now()
	f, err := safely(func() (events.VerifyFinished, error) {
		pass, output, err := fn.Verify(ctx, workdir)
		return events.VerifyFinished{Success: pass && err == nil, Output: output}, err
	})
	if abandoned(ctx) {
		return nil
	}
	f.Attempt, f.Duration = e.Attempt, time.Since(start)
	if err != nil {
		f.Output = withError(f.Output, err)
	}
	if !f.Success {
		f.Exit = exitCode(err)
	}
	f.Output = strings.ToValidUTF8(f.Output, "\uFFFD")
	return commands.ReportVerify{Task: e.Task, Finished: f}
}

func withError(output string, err error) string {
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return output + "[" + err.Error() + "]"
}

// exitCode is the command's, 1 for a gate that said no, and -1 for one that could
// not say.
func exitCode(err error) int {
	if err == nil {
		return 1
	}
	if e, ok := errors.AsType[*extension.ExitError](err); ok {
		return e.Code
	}
	return -1
}

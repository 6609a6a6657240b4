package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// MaxVerdict is how many bytes of a verifier's output are reported, from its end.
const MaxVerdict = 16 << 10

// Verify runs a task's verifier in workdir: the task's command or, without one, the function
// fn, which is nil in a process that did not start the task. It returns nil if ctx ended with a
// cause other than ErrStop: the verifier is owed again.
func (r *Runner) Verify(ctx context.Context, e loop.Verify, fn extension.Verifier, workdir string) commands.Command {
	if len(e.Command) > 0 {
		fn = extension.Command(e.Command...)
	}
	f := events.VerifyFinished{Attempt: e.Attempt, Exit: -1}
	if fn == nil {
		f.Output = "the verifier of this task is a function of a process that has ended"
		return commands.ReportVerify{Task: e.Task, Finished: f}
	}
	start := time.Now()
	err := safely("the verifier", func() (err error) {
		f.Success, f.Output, err = fn.Verify(ctx, workdir)
		return err
	})
	if abandoned(ctx) {
		return nil
	}
	f.Duration, f.Success = time.Since(start), f.Success && err == nil
	switch exit, failed := errors.AsType[*extension.ExitError](err); {
	case f.Success:
		f.Exit = 0
	case failed:
		f.Exit = exit.Code
	case err == nil:
		f.Exit = 1 // the verifier rejected the work
	}
	if err != nil {
		if f.Output != "" && !strings.HasSuffix(f.Output, "\n") {
			f.Output += "\n"
		}
		f.Output += "[" + err.Error() + "]"
	}
	f.Output = strings.ToValidUTF8(f.Output, "\uFFFD")
	f.Output = strings.ToValidUTF8(f.Output[max(0, len(f.Output)-MaxVerdict):], "") // without half a character
	return commands.ReportVerify{Task: e.Task, Finished: f}
}

// verifierTimeout bounds a verifier on a worker.
const verifierTimeout = time.Hour

type verifierInput struct {
	Argv []string `json:"argv" jsonschema:"The command of the verifier."`
}

// Describe returns the request for permission: a verifier is a command like any other.
func (in verifierInput) Describe() (kind, summary string, about any) {
	return "shell.command", "run the verifier " + strings.Join(in.Argv, " "), struct {
		Argv []string `json:"argv"`
		Cwd  string   `json:"cwd"`
	}{in.Argv, "."}
}

// NewVerifierTool returns the tool that runs verifiers in the directory root, with the settings of v
// except Argv. Its output is the verdict.
func NewVerifierTool(root string, v extension.CommandVerifier) (tool.Tool, error) {
	dir, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	runner := NewRunner(Config{})
	run := func(ctx context.Context, in verifierInput) (tool.Output, error) {
		if len(in.Argv) == 0 {
			return tool.Output{}, &tool.Error{Code: tool.CodeInvalidArguments, Message: "argv is empty; it must hold a command"}
		}
		v := v
		v.Argv = in.Argv
		rep, ok := runner.Verify(ctx, loop.Verify{}, v, dir.Dir()).(commands.ReportVerify)
		if !ok || ctx.Err() != nil { // stopping the call stops the verifier
			return tool.Output{}, context.Cause(ctx)
		}
		raw, err := json.Marshal(rep.Finished)
		if err != nil {
			return tool.Output{}, fmt.Errorf("write the verdict: %w", err)
		}
		return tool.Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
	}
	return tool.Func(loop.VerifierTool, "Runs the verifier of a task, which checks the work. Models do not see this tool.", run,
		tool.WithSpec(func(s *tool.Spec) { s.Effects, s.Timeout = content.Idempotent, verifierTimeout }))
}

// VerifierCall returns the call that runs a task's verifier on a worker of a queue. It is
// idempotent.
func VerifierCall(turn *loop.Turn, v loop.Verify, queue string) loop.Call {
	input, _ := json.Marshal(verifierInput{v.Command}) // strings always can be
	place := content.VerifierPlace(turn.N, v.Attempt)
	return loop.Call{
		ToolCall: content.ToolCall{ID: content.CallID(place), Place: place, Name: loop.VerifierTool, Input: input},
		Turn:     turn.ID, Round: turn.Round, Attempt: 1,
		Routing: content.Routing{Known: true, Queue: queue, Effects: content.Idempotent, Timeout: verifierTimeout},
	}
}

// Verdict reads the result of a verifier's call. A call that failed has no verdict: the
// verification failed.
func Verdict(attempt int, r tool.Result) events.VerifyFinished {
	var f events.VerifyFinished
	err := errors.New("no verdict")
	for _, p := range r.Result.Output {
		if p.Kind == content.StructuredKind {
			err = json.Unmarshal(p.Data, &f)
		}
	}
	if r.Result.Status != content.StatusOK || err != nil {
		f = events.VerifyFinished{Exit: -1, Output: r.Result.Text(), Duration: r.Duration}
	}
	f.Attempt = attempt
	return f
}

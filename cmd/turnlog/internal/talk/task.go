package talk

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// taskReport is what task -o json prints.
type taskReport struct {
	Status       string            `json:"status"` // done, failed, cancelled or blocked; needs_approval while a person has to decide
	Verified     bool              `json:"verified"`
	VerifyStatus string            `json:"verify_status"` // passed, failed, skipped, cancelled, or empty: the verifier never ran
	Cancelled    bool              `json:"cancelled"`
	Attempts     int               `json:"attempts"`
	FilesChanged []string          `json:"files_changed"`
	Error        string            `json:"error,omitempty"` // why it is not done
	Summary      string            `json:"summary"`
	Text         string            `json:"text"`
	Usage        report.Usage      `json:"usage"`
	Approvals    []report.Approval `json:"approvals"`
	Session      content.SessionID `json:"session"`
}

// Task returns the command that works on a goal.
func Task(a *app.App) *cobra.Command {
	var f talkFlags
	var goal flags.Goal
	cmd := &cobra.Command{
		Use:   "task [GOAL...]",
		Short: "Work on a goal until a command verifies it",
		Long: `Works on a goal in a separate context, then runs the verifier of --gate: a command that exits with 0 if
the goal is reached. If it fails, the model sees the command's output and continues, up to
--max-retries times. Without --gate the work is accepted without verification. Without arguments, or
with "-", the goal is read from stdin.

It runs in this process or on a deployment, with the same approvals and --file, as "turnlog run" does.
A shell runs the verifier in the root directory of a worker: in this process that is --root, in a
deployment the --root of a tool-worker with --tools gate or shell.

The phases are shown on stderr. The first interrupt cancels the task and its verifier; the second one
exits immediately.

Exit codes: 0 the task is done, and the verifier passed if there is one; 1 it failed, 2 wrong usage, 4 it
was canceled or interrupted, 5 it waits for approval.

-o json prints one object at the end. -o jsonl prints every event of the session as it is
recorded, one per line, then {"result": that object}.`,
		Example: `  turnlog task --gate 'go test ./...' --tools fs,shell --allow-write --allow '*' "Make the tests pass"
  turnlog task --gate 'grep -q done notes.txt' --max-retries 1 --allow-write --yes -o json - < goal.txt
  turnlog task --server nats://127.0.0.1:4222 --gate 'make check' --yes "Fix the linter's findings"`,
	}
	f.register(cmd, a)
	goal.Register(cmd, "")
	output := cli.OutputFlag(cmd, "text", "json", "jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := goal.Spec("")
		if err != nil {
			return err
		}
		if len(spec.Verifier) > 0 {
			f.tools.RunVerifiers()
		}
		in, err := f.files.input(cmd.Context(), a, args)
		if err != nil {
			return err
		}
		return f.talk(cmd.Context(), in, func(ctx context.Context, v *conversation, in input) error {
			if spec.Goal = in.text; v.session == nil {
				goal.Inherit(&spec, in.start.Agent)
			}
			if len(spec.Verifier) > 0 {
				if err := v.checkVerifiers(ctx); err != nil {
					return err
				}
			}
			in.task = &spec
			return v.print(ctx, in, output.String())
		})
	}
	return cmd
}

// checkVerifiers returns an error if no worker of the deployment runs verifiers.
func (v *conversation) checkVerifiers(ctx context.Context) error {
	specs, err := v.client.Tools(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(specs, func(s tool.Spec) bool { return s.Name == loop.VerifierTool }) {
		return app.Failed(cli.CodeFailed, "no worker runs verifiers: start a tool-worker with --tools gate, in the directory to be checked")
	}
	return nil
}

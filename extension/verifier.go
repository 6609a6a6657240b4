package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/tool"
)

// verifierGrace is how long a verifier's command may take to exit after SIGTERM.
const verifierGrace = 2 * time.Second

// maxOutput is how many bytes of a verifier's output are kept. Its last 4,000 characters
// are recorded, which may take four bytes each.
const maxOutput = 2 * 4 * 4000

// Command returns a verifier that runs a command in the session's root and passes if the
// command exits with 0. The command gets its own process group, which ends with it or
// with ctx, and sees the variables PATH, HOME, LANG and TMPDIR: it runs code that the model
// wrote, which must not see this process's secrets. The middle of long output is cut.
func Command(argv ...string) Verifier { return CommandVerifier{Argv: slices.Clone(argv)} }

// Argv returns the command of a verifier made by Command, which any process can run. It
// returns nil for any other verifier.
func Argv(v Verifier) []string {
	c, ok := v.(CommandVerifier)
	if !ok {
		return nil
	}
	return slices.Clone(c.Argv)
}

// ExitError is returned by the verifiers of Command when the command ran and failed.
type ExitError struct {
	Code  int    // -1: a signal ended it
	State string // for people
}

// Error says how the command ended.
func (e *ExitError) Error() string { return e.State }

// CommandVerifier is the verifier of [Command] with a host's additions.
type CommandVerifier struct {
	Argv []string
	Env  []string                                     // KEY=value, in addition; the last of equal keys wins
	Wrap func(argv []string, workdir string) []string // returns the command line that runs argv, for example in a sandbox; nil: argv itself
}

// Verify runs the command.
func (c CommandVerifier) Verify(ctx context.Context, workdir string) (pass bool, output string, err error) {
	if len(c.Argv) == 0 {
		return false, "", errors.New("verifier: no command")
	}
	clip, argv, dir := tool.NewClip(maxOutput), c.Argv, cmp.Or(workdir, ".")
	if c.Wrap != nil {
		argv = c.Wrap(argv, dir)
	}
	state, err := procgroup.Run(ctx, procgroup.Command{Args: argv, Dir: dir, Env: append(hostenv.Base(), c.Env...), Output: clip, Grace: verifierGrace})
	if err != nil {
		return false, "", fmt.Errorf("verifier %s: %w", c.Argv[0], err)
	}
	output, _ = clip.Text()
	switch {
	case ctx.Err() != nil:
		return false, output, context.Cause(ctx)
	case !state.Success():
		return false, output, &ExitError{Code: state.ExitCode(), State: state.String()}
	}
	return true, output, nil
}

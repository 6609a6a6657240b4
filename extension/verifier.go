package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/tool"
)

// verifierGrace is how long a verifier's command may take to exit once it is asked to.
const verifierGrace = 2 * time.Second

// maxOutput is how many bytes of a verifier's output are kept. Its last 4,000 characters
// are recorded, which may take four bytes each.
const maxOutput = 2 * 4 * 4000

// Command returns a verifier that runs a command in the session's root and passes if the
// command exits with 0. The command gets its own process group, which ends with it or
// with ctx. The middle of long output is cut.
func Command(argv ...string) Verifier { return command{slices.Clone(argv)} }

// Argv returns the command of a verifier made by Command, which any process can run. It
// returns nil for any other verifier.
func Argv(v Verifier) []string {
	c, ok := v.(command)
	if !ok {
		return nil
	}
	return slices.Clone(c.argv)
}

// ExitError is returned by the verifiers of Command when the command ran and failed.
type ExitError struct {
	Code  int    // -1: a signal ended it
	State string // for people
}

// Error says how the command ended.
func (e *ExitError) Error() string { return e.State }

type command struct{ argv []string }

// Verify runs the command.
func (c command) Verify(ctx context.Context, workdir string) (pass bool, output string, err error) {
	if len(c.argv) == 0 {
		return false, "", errors.New("verifier: no command")
	}
	clip := tool.NewClip(maxOutput)
	state, err := runCommand(ctx, procgroup.Command{Args: c.argv, Dir: cmp.Or(workdir, "."), Output: clip, Grace: verifierGrace})
	if err != nil {
		return false, "", fmt.Errorf("verifier %s: %w", c.argv[0], err)
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

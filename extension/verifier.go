package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/internal/procgroup"
)

// verifierGrace is how long a verifier's command may take to exit once it is asked to.
const verifierGrace = 2 * time.Second

// tailRoom is how many bytes of a verifier's output are kept: 4,000 characters, however
// many bytes each of them takes.
const tailRoom = 4 * 4000

// Command returns a verifier that runs a command in the session's root and passes if the
// command exits with 0. The command gets its own process group, which ends with it or
// with ctx. The output is what the command wrote, truncated to its end.
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
	path := c.argv[0]
	if !strings.ContainsRune(path, os.PathSeparator) { // else the path is relative to workdir
		if path, err = exec.LookPath(path); err != nil {
			return false, "", fmt.Errorf("verifier: %w", err)
		}
	}
	var out tail
	state, err := procgroup.Run(ctx, procgroup.Command{
		Path: path, Args: c.argv, Dir: cmp.Or(workdir, "."), Output: &out, Grace: verifierGrace,
	})
	switch {
	case err != nil:
		return false, "", fmt.Errorf("verifier %s: %w", c.argv[0], err)
	case ctx.Err() != nil:
		return false, out.text(), context.Cause(ctx)
	case !state.Success():
		return false, out.text(), &ExitError{Code: state.ExitCode(), State: state.String()}
	}
	return true, out.text(), nil
}

// tail keeps the last bytes written to it.
type tail struct{ kept []byte }

// Write takes all of b.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b[max(0, len(b)-tailRoom):]...)
	if over := len(t.kept) - tailRoom; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) text() string { return strings.ToValidUTF8(string(t.kept), "\uFFFD") }

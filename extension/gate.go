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

// gateGrace is how long a gate's command may take to end when it is asked to.
const gateGrace = 2 * time.Second

// tailRoom holds the characters that are kept of a gate's output, however many
// bytes each of them has.
const tailRoom = 4 * 4000

// Command returns the gate that runs a command in the session's root and passes if
// it exits with 0. The command has a process group of its own, all of which ends
// with it or with ctx. Its output is what the command wrote, the end of it if that
// is long.
func Command(argv ...string) Gate { return command{slices.Clone(argv)} }

// Argv returns the command of a gate that Command made, which any process can run
// in its place; nil for any other.
func Argv(g Gate) []string {
	c, ok := g.(command)
	if !ok {
		return nil
	}
	return slices.Clone(c.argv)
}

// ExitError is returned by the gates of Command for a command that ran and failed.
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
		return false, "", errors.New("gate: no command")
	}
	path := c.argv[0]
	if !strings.ContainsRune(path, os.PathSeparator) { // else the system looks in workdir
		if path, err = exec.LookPath(path); err != nil {
			return false, "", fmt.Errorf("gate: %w", err)
		}
	}
	var out tail
	state, err := procgroup.Run(ctx, procgroup.Command{
		Path: path, Args: c.argv, Dir: cmp.Or(workdir, "."), Output: &out, Grace: gateGrace,
	})
	switch {
	case err != nil:
		return false, "", fmt.Errorf("gate %s: %w", c.argv[0], err)
	case ctx.Err() != nil:
		return false, out.text(), context.Cause(ctx)
	case !state.Success():
		return false, out.text(), &ExitError{Code: state.ExitCode(), State: state.String()}
	}
	return true, out.text(), nil
}

// tail keeps the end of what is written to it.
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

//go:build unix

package conceal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// handover names the file descriptor from which the second start reads the variables.
const handover = "TURNLOG_ENVIRONMENT_FD"

// Secrets hides the variables and the memory of this process from other processes of the same
// user. The variables can still be read with [os.Getenv]. Call it first in main: where the variables
// cannot be overwritten, it starts the program again, as the same process. If it returns an error,
// the variables are unchanged; the memory is hidden if the system can do that.
func Secrets() error {
	fd, again := os.LookupEnv(handover)
	if !again {
		err := overwrite()
		if err == nil {
			return errors.Join(set(os.Environ()), hideMemory()) // the C library has none either
		}
		err = errors.Join(err, startAgain()) // returns only if it failed
		return errors.Join(fmt.Errorf("the variables of this process are visible to its commands: %w", err), hideMemory())
	}
	if err := os.Unsetenv(handover); err != nil {
		return fmt.Errorf("replace the variables: %w", err)
	}
	n, err := strconv.Atoi(fd)
	if err != nil {
		return fmt.Errorf("replace the variables: %w", err)
	}
	pipe := os.NewFile(uintptr(n), "variables")
	raw, err := io.ReadAll(pipe)
	if err = errors.Join(err, pipe.Close()); err != nil {
		return fmt.Errorf("replace the variables: %w", err)
	}
	return errors.Join(set(strings.Split(string(raw), "\x00")), hideMemory())
}

// set sets variables, each written as "key=value".
func set(env []string) (err error) {
	for _, v := range env {
		if key, value, ok := strings.Cut(v, "="); ok && key != "" {
			err = errors.Join(err, os.Setenv(key, value))
		}
	}
	return err
}

// early returns the variables that take effect before main: the ones for Go's runtime.
func early(env []string) []string {
	names := []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GOCOVERDIR", "GORACE", "TZ"}
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(names, name)
	})
}

// startAgain replaces this process by a new start of its program, which reads the variables
// from a pipe. It returns only if that fails.
func startAgain() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	defer func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) }()
	if err := fill(ends[1], strings.Join(os.Environ(), "\x00")); err != nil {
		return err
	}
	unix.CloseOnExec(ends[1])
	err = syscall.Exec(program, os.Args, append(early(os.Environ()), fmt.Sprintf("%s=%d", handover, ends[0])))
	return fmt.Errorf("start %s again: %w", program, err)
}

// fill writes a text to a pipe without a reader, so all of it must fit.
func fill(end int, text string) error {
	enlarge(end, len(text))
	if err := unix.SetNonblock(end, true); err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	for len(text) > 0 {
		n, err := unix.Write(end, []byte(text))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("%d bytes of variables do not fit: %w", len(text), err)
		default:
			text = text[n:]
		}
	}
	return nil
}

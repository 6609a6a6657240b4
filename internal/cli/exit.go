package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/internal/cli/otlp"
	"github.com/turnlog/turnlog/internal/conceal"
)

// Exit codes of all programs.
const (
	CodeOK        = 0
	CodeFailed    = 1
	CodeUsage     = 2
	CodeLimit     = 3 // a limit ended the turn
	CodeCancelled = 4 // the turn was cancelled
	CodeApproval  = 5 // the turn waits for a person's approval

	CodeBelow    = verdict.ExitBelow
	CodeUnjudged = verdict.ExitUnjudged
	CodeGone     = verdict.ExitGone
)

// codeSignal is added to a signal's number, by the convention of shells.
const codeSignal = 128

// ExitError ends a program with a given code. If Err is nil, nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage returns a usage error that a command found itself. It is printed with a hint to
// the help.
func Usage(format string, args ...any) error {
	return &ExitError{Code: CodeUsage, Err: fmt.Errorf(format, args...)}
}

// gcPercent lets the heap grow to four times the live data, where Go's default is twice.
// Commands and entries are short-lived, and collecting them less often saves 7 % of a
// busy node's time. The environment's GOGC overrides it.
const gcPercent = 300

// ConcealSecrets hides the environment and the memory of this process from the commands that it
// runs. It must be the first statement of main, because it may start the program again.
func ConcealSecrets() {
	if err := conceal.Secrets(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "warning:", err) // the program still works
	}
}

// Main runs the root command with the process's arguments until it ends or a signal
// arrives, and returns the exit code.
func Main(root *cobra.Command) int {
	ctx, stop := withSignals(context.Background(), os.Exit)
	defer stop()
	return Execute(ctx, root)
}

// Execute runs root and returns the exit code. If it is not 0, one line on the command's standard
// error says why. A list of errors gets one line for each element.
func Execute(ctx context.Context, root *cobra.Command) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	began := false
	root.AddCommand(manual())
	prepare(root, &began)
	cmd, err := root.ExecuteContextC(ctx)
	end(cmd)
	code, text := conclude(err, began)
	if many, ok := errors.AsType[severalError](err); ok && text != "" {
		for _, line := range many.Lines() {
			_, _ = fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", root.Name(), oneLine(line))
		}
		return code
	}
	if code == CodeUsage && text != "" {
		text += fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
	}
	if text != "" {
		_, _ = fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", root.Name(), text) // nothing else can be done
	}
	return code
}

// end stops what the flags of a command have started.
func end(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if begun, ok := f.Value.(interface{ Ended() }); ok {
			begun.Ended()
		}
	})
}

type severalError interface {
	error
	Lines() []string
}

func conclude(err error, began bool) (code int, text string) {
	if err == nil {
		return CodeOK, ""
	}
	text = oneLine(err.Error())
	if e, ok := errors.AsType[*ExitError](err); ok {
		if e.Err == nil {
			text = ""
		}
		return e.Code, text
	}
	if i, ok := errors.AsType[*Interrupted](err); ok {
		return i.code(), text
	}
	if _, ok := errors.AsType[*otlp.SettingError](err); ok || !began {
		return CodeUsage, text
	}
	return CodeFailed, text
}

// oneLine joins the lines of a text and escapes control characters.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return render.Safe(strings.Join(lines, "; "))
}

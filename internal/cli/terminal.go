package cli

import (
	"io"
	"os"
	"runtime"

	"github.com/mattn/go-isatty"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// Colored reports whether w is a terminal with colors, and NO_COLOR is not set.
func Colored(w io.Writer, getenv func(string) string) bool {
	return IsTerminal(w) && getenv("NO_COLOR") == "" && Understands(getenv)
}

// Understands reports whether the terminal handles more than plain text, according to TERM. Without TERM, only Windows
// terminals do.
func Understands(getenv func(string) string) bool {
	term := getenv("TERM")
	return term != "dumb" && (term != "" || runtime.GOOS == "windows")
}

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

// Understands reports whether a terminal understands more than text, as TERM says. Without TERM only those of Windows do.
func Understands(getenv func(string) string) bool {
	term := getenv("TERM")
	return term != "dumb" && (term != "" || runtime.GOOS == "windows")
}

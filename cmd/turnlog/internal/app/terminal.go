package app

import (
	"io"
	"os"
	"sync"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/internal/cli"
)

// Terminal connects a command to its user: output goes to Out, everything else to Err.
type Terminal struct {
	In        io.Reader
	Out, Err  io.Writer
	Control   io.Writer // Err without escaping, for control sequences; nil: there is no terminal
	Questions io.Writer // nil: Err
	IsIn      bool      // In is a terminal
	IsOut     bool
	Style     render.Style // of Err
}

// NewTerminal returns the terminal of a process.
func NewTerminal(in, out, err *os.File, getenv func(string) string) Terminal {
	t := Terminal{
		In: in, Out: out, Err: err, IsIn: cli.IsTerminal(in), IsOut: cli.IsTerminal(out),
		Style: render.Style{Color: cli.Colored(err, getenv)},
	}
	if cli.IsTerminal(err) && cli.Understands(getenv) {
		t.Control = err
	}
	return t
}

// Escaped returns a terminal that escapes control characters. Output that does not go to a terminal is
// unchanged.
func (t Terminal) Escaped() Terminal {
	if t.IsOut {
		t.Out = render.Terminal(t.Out)
	}
	t.Err = render.Terminal(t.Err)
	return t
}

// Outlet remembers the first failed write. Commands that show a turn as it happens
// don't stop for one, but a command whose output is lost has failed.
type Outlet struct {
	To io.Writer

	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (o *Outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.To.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Redirect sends later writes to another writer.
func (o *Outlet) Redirect(to io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.To = to
}

// Failure returns the error of the first failed write.
func (o *Outlet) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

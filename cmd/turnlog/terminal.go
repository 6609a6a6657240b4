package main

import (
	"io"
	"os"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/internal/cli"
)

// terminal is where a command talks to people: replies go to out, everything
// about them to err.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	isIn     bool // in is a terminal
	isOut    bool
	style    render.Style // of err
}

// newTerminal looks at the files of a process. getenv is asked what people want of
// colours.
func newTerminal(in, out, err *os.File, getenv func(string) string) terminal {
	return terminal{
		in: in, out: out, err: err, isIn: cli.IsTerminal(in), isOut: cli.IsTerminal(out),
		style: render.Style{Color: cli.Colored(err, getenv)},
	}
}

// outlet remembers that something could not be written: who shows a turn as it comes does
// not stop for that, but a command whose output is lost has failed.
type outlet struct {
	to io.Writer

	mu  sync.Mutex
	err error // the first
}

// Write implements io.Writer.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.to.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// lost is why something could not be written, or nil.
func (o *outlet) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// harmless is text as it may be written to a terminal, line by line: what models and
// tools say must not move the cursor, or worse.
func harmless(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = render.Safe(line)
	}
	return strings.Join(lines, "\n")
}

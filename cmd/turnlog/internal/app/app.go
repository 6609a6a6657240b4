// Package app holds the code that the commands of turnlog share: the terminal, signals,
// connections to a deployment, and printing a result as a table or as JSON.
//
// An [App] holds everything that a process has only once, so a test can run a command
// with its own streams, signals and environment. Main owns the App; commands only use it.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
)

// App is the process as commands see it.
type App struct {
	Terminal

	Logs     *Outlet          // for logs of the parts of this process, which start before a command takes over the terminal
	Signals  <-chan os.Signal // one reader at a time
	Typed    <-chan Line      // what the user types; nil: the lines of In
	Ready    func(ready bool) // called when a command begins and ends to wait for a line; nil: a prompt says so
	Exit     func(code int)
	Getenv   func(string) string
	Patience Patience
}

// Patience says how long commands wait.
type Patience struct {
	Nudge   time.Duration // until a hint that there is no answer yet
	Answer  time.Duration // until a node has accepted a command
	Cancel  time.Duration // until a turn ends whose time is over
	Leave   time.Duration // until a node has accepted a command that is being cancelled
	Servers time.Duration // until a hint about MCP servers that are still connecting
}

// DefaultPatience allows for a takeover: if the node of a session is killed, the session has a new owner
// within 12 s.
func DefaultPatience() Patience {
	return Patience{
		Nudge: 3 * time.Second, Answer: 30 * time.Second, Cancel: 10 * time.Second, Leave: 500 * time.Millisecond,
		Servers: 2 * time.Second,
	}
}

// Interruptible runs do with a context that the first signal ends. The second one
// ends the process.
func (a *App) Interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, end := cli.Watch(ctx, a.Signals, a.Exit)
	defer end()
	return do(ctx)
}

// UntilInterrupted runs do until the first signal, which is its regular end.
func (a *App) UntilInterrupted(ctx context.Context, do func(context.Context) error) error {
	err := a.Interruptible(ctx, do)
	if IsInterrupt(err) {
		return nil
	}
	return err
}

// IsInterrupt reports whether a signal caused err.
func IsInterrupt(err error) bool {
	_, ok := errors.AsType[*cli.Interrupted](err)
	return ok
}

// Person is the user's name, as journals record it.
func (a *App) Person() string {
	return cmp.Or(a.Getenv("USER"), a.Getenv("USERNAME"), "turnlog")
}

// StateDir returns the directory for the user's state, or "" if there is none.
func (a *App) StateDir() string {
	state := a.Getenv("XDG_STATE_HOME")
	if home := a.Getenv("HOME"); state == "" && home != "" {
		state = filepath.Join(home, ".local", "state")
	}
	if state == "" {
		return ""
	}
	return filepath.Join(state, "turnlog")
}

// Hint tells the user something that is not part of the output.
func (a *App) Hint(format string, args ...any) {
	_, _ = fmt.Fprintln(a.Err, a.Style.Dim(render.Safe(fmt.Sprintf(format, args...))))
}

// Complain reports an error that does not end the command.
func (a *App) Complain(err error) {
	_, _ = fmt.Fprintln(a.Err, a.Style.Bad(render.Safe(err.Error())))
}

// Failed returns an error that ends the program with a code.
func Failed(code int, format string, args ...any) error {
	return &cli.ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// AwaitServers waits for MCP servers and HTTP tools and reports the missing ones. It returns an error
// only after a signal, since nothing else depends on them.
func (a *App) AwaitServers(ctx context.Context, tools *toolset.Tools) error {
	if !tools.Remote() {
		return nil
	}
	return a.Interruptible(ctx, func(ctx context.Context) error {
		soon, cancel := context.WithTimeout(ctx, a.Patience.Servers)
		defer cancel()
		for _, name := range tools.Slow(soon) {
			a.Hint("waiting for MCP server %s", name)
		}
		for _, err := range tools.Missing(ctx) {
			a.Complain(err)
		}
		return context.Cause(ctx)
	})
}

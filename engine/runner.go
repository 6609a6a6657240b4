package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// ErrStop is the cause with which a host cancels an effect that the session no longer wants.
// The effect reports what it had.
var ErrStop = errors.New("stopped by the session")

// abandoned reports whether the host abandoned an effect. Its outcome does not count, and the
// effect is owed again.
func abandoned(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStop)
}

// Config configures a Runner. The zero Config allows every call and has no extensions.
type Config struct {
	Permissions tool.Permissions    // nil: tool.AllowAll
	Resources   any                 // passed to tools that run in this process
	Hooks       []extension.Hook    // in order
	Mutators    []extension.Mutator // in order
	Notes       extension.Notes     // nil: tasks recall and store nothing
	Durable     extension.Durable   // nil: models and tools are called directly
	Manager     task.Manager        // nil: each tool's own route; calls of this process run as they are owed
	Blobs       Blobs               // the blobs that input refers to; nil: none are found
	Logger      *zap.Logger         // nil: silent
}

// Equipment is what a session's agent adds to its host's Config.
type Equipment struct {
	Hooks    []extension.Hook    // run after the host's
	Mutators []extension.Mutator // likewise
	Notes    extension.Notes     // replace the host's; nil: the host's
	Terms    []tool.Terms        // of the tools that the session uses
	Policy   json.RawMessage     // a permission.Policy for the workers that run the calls; nil: none
	Verifier []string            // the command for tasks without a verifier; nil: none
	Retries  int                 // retries of a task with that verifier
}

// With returns the configuration for sessions with the equipment. The host's hooks and mutators
// run first.
func (c Config) With(e Equipment) Config {
	c.Hooks = slices.Concat(c.Hooks, e.Hooks)
	c.Mutators = slices.Concat(c.Mutators, e.Mutators)
	if e.Notes != nil {
		c.Notes = e.Notes
	}
	return c
}

// Runner performs effects. It is safe for concurrent use.
type Runner struct {
	cfg Config
}

// WithoutNotes returns a runner whose tasks recall and store nothing.
func (r *Runner) WithoutNotes() *Runner {
	without := *r
	without.cfg.Notes = nil
	return &without
}

// NewRunner returns a runner.
func NewRunner(cfg Config) *Runner {
	if cfg.Permissions == nil {
		cfg.Permissions = tool.AllowAll{}
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Runner{cfg: cfg}
}

// brokenError is a panic in code that a host plugs in.
type brokenError struct {
	what  string
	value any
}

func (e *brokenError) Error() string { return fmt.Sprintf("%s panicked: %v", e.what, e.value) }

// safely calls f. A panic becomes a *brokenError: it fails the effect, not the process.
func safely(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &brokenError{what, p}
		}
	}()
	return f()
}

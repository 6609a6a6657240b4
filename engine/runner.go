package engine

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// ErrStop is the cause with which a host cancels an effect that the session does
// not want any more; the effect reports what it had.
var ErrStop = errors.New("stopped by the session")

// abandoned reports whether the host gave an effect up: what came of it counts for
// nothing, and it is owed again.
func abandoned(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStop)
}

// Config is what a Runner works with. The zero Config allows every call and has
// no extensions.
type Config struct {
	Permissions tool.Permissions    // nil: tool.AllowAll
	Resources   any                 // handed to tools that run in this process
	Hooks       []extension.Hook    // in order
	Mutators    []extension.Mutator // in order
	Memory      extension.Notes     // nil: tasks recall and store nothing
	Durable     extension.Durable   // nil: models and tools are called directly
	Manager     task.Manager        // nil: calls go where their tools ask, and those of this process run as they are owed
	Blobs       Blobs               // what input refers to; nil: nothing is found
	Logger      *zap.Logger         // nil: silent
}

// Runner performs effects. It is safe for concurrent use.
type Runner struct {
	cfg Config
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

package engine

import (
	"context"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Input is what the effects that every host performs alike see of a session.
type Input struct {
	Session    content.SessionID
	Transcript []content.Item
	Catalog    *Catalog
	Turn       *loop.Turn         // for hooks
	Gate       extension.Verifier // of the task, if it is a function; nil: none
	Root       string             // where gates run
}

// Perform does an effect that every host performs alike, and returns its report. done
// is false for one that is the host's own: models, tools, timers, and what stops them.
func (r *Runner) Perform(ctx context.Context, e loop.Effect, in Input) (c commands.Command, done bool) {
	switch e := e.(type) {
	case loop.Preflight:
		return r.Preflight(ctx, in.Session, e, in.Catalog), true
	case loop.RunHooks:
		return r.RunHooks(ctx, e, HookInput{Session: in.Session, Transcript: in.Transcript, Catalog: in.Catalog, Turn: in.Turn}), true
	case loop.RunMutator:
		return r.Mutate(ctx, in.Session, e, in.Transcript), true
	case loop.Recall:
		return r.Recall(ctx, e), true
	case loop.StoreMemory:
		return r.Remember(ctx, e), true
	case loop.Verify:
		return r.Verify(ctx, e, in.Gate, in.Root), true
	case loop.CallModel, loop.StopModel, loop.RunTool, loop.StopTool, loop.ArmTimer, loop.StopVerify:
	}
	return nil, false
}

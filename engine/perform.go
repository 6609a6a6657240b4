package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// View is what effects see of a session: values that later entries do not change.
type View struct {
	Session    content.SessionID
	Seq        uint64 // sequence of the last entry
	At         content.Time
	Epoch      uint64
	Config     events.Config
	Transcript []content.Item
	Attached   []int // the items of Transcript that may refer to blobs
	Catalog    *Catalog
	Turn       *loop.Turn            // nil unless hooks are pending
	Cache      *content.CacheRequest // for the next model call
}

// View returns the view for effects that start now.
func (s *Session) View(pending []loop.Effect) *View {
	v := &View{
		Session: s.State.Session, Seq: s.Head.Seq, At: s.State.At, Epoch: s.State.Epoch, Config: s.State.Config,
		Transcript: slices.Clip(s.State.Transcript), Attached: s.attached.in(s.State.Transcript), Catalog: s.Catalog,
		Cache: cmp.Or(s.State.CacheOverride, s.State.Config.Cache),
	}
	if slices.ContainsFunc(pending, func(e loop.Effect) bool { _, ok := e.(loop.RunHooks); return ok }) {
		v.Turn = s.State.Fork().Turn
	}
	return v
}

// Host is the part of performing effects that differs between hosts. Effects call its methods
// on their own goroutines.
type Host interface {
	// OpenModel returns the model for a call, or the report if there is none.
	OpenModel(e loop.CallModel, v *View) (model.Model, commands.Command)
	// RunTool runs a call and returns its report, or nil if the report arrives another way.
	RunTool(ctx context.Context, e loop.RunTool, v *View) commands.Command
	// StopTool stops a call that is no longer wanted, and may report its usage.
	StopTool(ctx context.Context, e loop.StopTool, v *View) commands.Command
	// Verifier returns the verifier of the open task if it is a function, else nil, and the
	// directory where verifiers run.
	Verifier() (extension.Verifier, string)
	// Publish sends a live event, which may be lost.
	Publish(ev events.Event)
}

// Perform performs an effect and returns its report, or nil if there is none.
func (r *Runner) Perform(ctx context.Context, e loop.Effect, v *View, h Host) commands.Command {
	switch e := e.(type) {
	case loop.CallModel:
		if errors.Is(context.Cause(ctx), ErrStop) { // before it started
			return commands.ReportModelStopped{ModelCall: e.ModelCall}
		}
		m, report := h.OpenModel(e, v)
		if m == nil {
			return report
		}
		return r.CallModel(ctx, e, m, v, h.Publish)
	case loop.StopModel: // another host began the call
		return commands.ReportModelStopped{ModelCall: e.ModelCall}
	case loop.Preflight:
		return r.Preflight(ctx, e, v)
	case loop.RunTool:
		if ctx.Err() != nil {
			return nil
		}
		return h.RunTool(ctx, e, v)
	case loop.StopTool:
		return h.StopTool(ctx, e, v)
	case loop.RunHooks:
		return r.RunHooks(ctx, e, v)
	case loop.RunMutator:
		return r.Mutate(ctx, e, v)
	case loop.ArmTimer: // the performer reports it
		return nil
	case loop.Recall:
		return r.Recall(ctx, e)
	case loop.StoreMemory:
		return r.Remember(ctx, e)
	case loop.Verify:
		fn, dir := h.Verifier()
		return r.Verify(ctx, e, fn, dir)
	case loop.StopVerify: // another host began it
		return commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt}}
	}
	return nil
}

// stops returns the effect that e stops, if that effect reports its own end.
func stops(e loop.Effect) loop.Effect {
	switch e := e.(type) { //nolint:gochecksumtype // the others stop nothing, or send a report
	case loop.StopModel:
		return loop.CallModel{ModelCall: e.ModelCall}
	case loop.StopVerify:
		return loop.Verify{Task: e.Task, Attempt: e.Attempt}
	}
	return nil
}

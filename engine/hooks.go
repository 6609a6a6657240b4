package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// Registrations lists the runner's hooks and mutators for a session's configuration.
func (r *Runner) Registrations() (hooks, mutators []events.Registration) {
	for _, h := range r.cfg.Hooks {
		hooks = append(hooks, registration(h.Name(), h.Points()))
	}
	for _, m := range r.cfg.Mutators {
		mutators = append(mutators, registration(m.Name(), extension.PointsOf(m)))
	}
	return hooks, mutators
}

func registration(name string, points []extension.Point) events.Registration {
	reg := events.Registration{Name: name}
	for _, p := range points {
		reg.Points = append(reg.Points, string(p))
	}
	return reg
}

// HasHooks reports whether any hook runs at the point.
func (r *Runner) HasHooks(p extension.Point) bool {
	return slices.ContainsFunc(r.cfg.Hooks, func(h extension.Hook) bool { return slices.Contains(h.Points(), p) })
}

// Hooks asks the hooks of one point, in order. It stops at the first Terminate, and at the first Skip
// before a tool runs.
func (r *Runner) Hooks(ctx context.Context, e extension.HookEvent) commands.HookAnswer {
	a := commands.HookAnswer{Point: string(e.Point), Action: extension.Continue.String()}
	if e.Call != nil {
		a.Call = e.Call.ID
	}
	for _, h := range r.cfg.Hooks {
		if !slices.Contains(h.Points(), e.Point) {
			continue
		}
		name := "unnamed"
		var act extension.Action
		err := safely("a hook's Name", func() error {
			name = h.Name()
			return nil
		})
		if err == nil {
			err = safely("hook "+name, func() (err error) {
				act, err = h.OnEvent(ctx, e)
				return err
			})
		}
		if act.Kind == extension.Continue {
			note(&a, name, act.Reason) // even if the hook could not look at everything
		}
		if err != nil && extension.FailsOpen(h) {
			a.FailedOpen = append(a.FailedOpen, name)
			note(&a, name, err.Error())
			continue
		}
		if err != nil {
			act = extension.Action{Kind: extension.Terminate, Reason: err.Error()}
		}
		if act.Kind == extension.Continue {
			continue
		}
		a.Hook, a.Action, a.Reason = name, act.Kind.String(), act.Reason
		if act.Kind == extension.Terminate || e.Point == extension.PreToolExecution {
			return a
		}
	}
	return a
}

// note keeps the text of a hook that stops nothing.
func note(a *commands.HookAnswer, hook, text string) {
	if text != "" {
		a.Notes = append(a.Notes, events.HookNote{Hook: hook, Text: strings.ToValidUTF8(text, "\uFFFD")})
	}
}

// RunHooks asks the hooks of the point that the session has reached. It returns nil if the
// turn has ended, since then the answer is not needed.
func (r *Runner) RunHooks(ctx context.Context, e loop.RunHooks, in *View) commands.Command {
	if in.Turn == nil || in.Turn.ID != e.Turn {
		return nil
	}
	ev := extension.HookEvent{
		Point: extension.Point(e.Point), Session: in.Session, Turn: e.Turn, Round: e.Round - 1,
		OldTokens: int(e.Old), NewTokens: int(e.New),
	}
	switch ev.Point {
	case extension.PreLlmCall:
		ev.Request = &model.Request{
			Session: in.Session, Turn: e.Turn, Round: e.Round, Attempt: 1, Transcript: in.Transcript, Tools: in.Catalog.Specs(),
			Cache: in.Cache,
		}
		if o := in.Config.Output; o != nil {
			ev.Request.Schema = o.Schema
		}
	case extension.PostLlmCall:
		ev.Reply = lastReply(in)
	case extension.PreToolExecution, extension.PostToolExecution:
		for _, c := range in.Turn.Calls {
			if c.ID == e.Call {
				tc := effective(c)
				ev.Call, ev.Result = &tc, c.Result
			}
		}
	case extension.LoopIteration, extension.ContextCompaction, extension.SessionStart, extension.SessionEnd,
		extension.BeforeModel, extension.AfterToolResult, extension.AfterTurnEnded:
	}
	a := r.Hooks(ctx, ev)
	if ctx.Err() != nil {
		return nil
	}
	a.Call = e.Call
	return commands.ReportHooks{Turn: e.Turn, Round: e.Round, N: e.N, Answer: a}
}

func lastReply(in *View) *model.Reply {
	all := in.Turn.Items
	rep := &model.Reply{FinishReason: in.Turn.Reply, Items: all[len(all)-in.Turn.Replied:]}
	if n := len(rep.Items); n > 0 && rep.Items[n-1].Usage != nil {
		rep.Usage = *rep.Items[n-1].Usage
	}
	return rep
}

// Recall gets the notes that help to plan a task. It returns nil if ctx ended.
func (r *Runner) Recall(ctx context.Context, e loop.Recall) commands.Command {
	c := commands.ReportRecall{Task: e.Task}
	if r.cfg.Notes == nil {
		return c
	}
	err := safely("Recall", func() (err error) {
		c.Items, err = r.cfg.Notes.Recall(ctx, e.Goal)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}

// Remember stores a task's summary. It returns nil if ctx ended.
func (r *Runner) Remember(ctx context.Context, e loop.StoreMemory) commands.Command {
	c := commands.ReportMemory{Task: e.Task}
	if r.cfg.Notes == nil {
		return c
	}
	err := safely("Remember", func() error { return r.cfg.Notes.Remember(ctx, e.Goal, e.Summary) })
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}

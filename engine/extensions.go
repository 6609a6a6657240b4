package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// Registrations says which hooks and mutators the runner has, for a session's
// configuration.
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

// Stands reports whether a hook wants to be asked at the point.
func (r *Runner) Stands(p extension.Point) bool { return r.has(p) }

func (r *Runner) has(p extension.Point) bool {
	return slices.ContainsFunc(r.cfg.Hooks, func(h extension.Hook) bool { return slices.Contains(h.Points(), p) })
}

// Hooks asks the hooks of one point, in order: the first Terminate ends the row,
// and so does a Skip where Skip means something.
func (r *Runner) Hooks(ctx context.Context, e extension.HookEvent) commands.HookAnswer {
	a := commands.HookAnswer{Point: string(e.Point), Action: extension.Continue.String()}
	if e.Call != nil {
		a.Call = e.Call.ID
	}
	for _, h := range r.cfg.Hooks {
		if !slices.Contains(h.Points(), e.Point) {
			continue
		}
		act, err := ask(ctx, h, e)
		if act.Kind == extension.Continue {
			note(&a, h, act.Reason) // also of one that could not look at everything
		}
		if err != nil && extension.FailsOpen(h) {
			a.FailedOpen = append(a.FailedOpen, h.Name())
			note(&a, h, err.Error())
			continue
		}
		if err != nil {
			act = extension.Action{Kind: extension.Terminate, Reason: err.Error()}
		}
		if act.Kind == extension.Continue {
			continue
		}
		a.Hook, a.Action, a.Reason = h.Name(), act.Kind.String(), act.Reason
		if act.Kind == extension.Terminate || e.Point == extension.PreToolExecution {
			return a
		}
	}
	return a
}

// note keeps the text of a hook that stops nothing.
func note(a *commands.HookAnswer, h extension.Hook, text string) {
	if text != "" {
		a.Notes = append(a.Notes, events.HookNote{Hook: h.Name(), Text: strings.ToValidUTF8(text, "\uFFFD")})
	}
}

func ask(ctx context.Context, h extension.Hook, e extension.HookEvent) (a extension.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("hook %s broke: %v", h.Name(), p)
		}
	}()
	return h.OnEvent(ctx, e)
}

// safely isolates what breaks in a host's code: that is a failure of the effect, not
// the end of the process.
func safely[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it broke: %v", p)
		}
	}()
	return f()
}

// Recall gathers what planning a task needs. It returns nil if ctx ended.
func (r *Runner) Recall(ctx context.Context, e loop.Recall) commands.Command {
	if r.cfg.Memory == nil {
		return commands.ReportRecall{Task: e.Task}
	}
	items, err := safely(func() ([]content.Item, error) { return r.cfg.Memory.Recall(ctx, e.Goal) })
	if ctx.Err() != nil {
		return nil
	}
	c := commands.ReportRecall{Task: e.Task, Items: items}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}

// Remember stores a task's summary. It returns nil if ctx ended.
func (r *Runner) Remember(ctx context.Context, e loop.StoreMemory) commands.Command {
	if r.cfg.Memory == nil {
		return commands.ReportMemory{Task: e.Task}
	}
	_, err := safely(func() (struct{}, error) { return struct{}{}, r.cfg.Memory.Remember(ctx, e.Goal, e.Summary) })
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return commands.ReportMemory{Task: e.Task, Error: err.Error()}
	}
	return commands.ReportMemory{Task: e.Task}
}

// RunHooks asks the hooks of the point that the session has come to. It returns nil
// if the turn ended meanwhile, so the answer is not needed.
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
		}
	case extension.PostLlmCall:
		ev.Reply = lastReply(in)
	case extension.PreToolExecution, extension.PostToolExecution:
		for _, c := range in.Turn.Calls {
			if c.ID == e.Call {
				tc := c.ToolCall
				tc.Input = c.EffectiveInput()
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
	n := len(in.Turn.Items)
	if n == 0 {
		return &model.Reply{FinishReason: in.Turn.Reply}
	}
	it := in.Turn.Items[n-1]
	rep := &model.Reply{Items: []content.Item{it}, FinishReason: in.Turn.Reply}
	if it.Usage != nil {
		rep.Usage = *it.Usage
	}
	return rep
}

package engine

import (
	"context"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// ChildID returns the ID of the session in which a call of a sub-agent's tool runs.
func ChildID(parent content.SessionID, p content.Place) content.SessionID {
	return content.SessionID(string(parent) + "-" + string(p))
}

// CallerOf returns the call for which a sub-agent's session works, if the ID has the form of such a session's.
func CallerOf(child content.SessionID) (parent content.SessionID, p content.Place, ok bool) {
	at := max(0, strings.LastIndex(string(child), "-t"))
	p = content.Place(strings.TrimPrefix(string(child[at:]), "-"))
	_, _, _, err := content.ParsePlace(string(p))
	return child[:at], p, err == nil && at > 0
}

// ChildCancel returns the id of the command that cancels that session for its caller. The command takes
// effect once, even if several processes send it.
func ChildCancel(parent content.SessionID, p content.Place) string {
	return "cancel/" + string(ChildID(parent, p))
}

// RunTool runs a call as the task manager decides, in this process by default. It reports a
// result, or the question that must be answered first. It returns nil if ctx ended with a cause
// other than ErrStop: the attempt is lost. caller is for tools that run their own session; nil:
// none.
func (r *Runner) RunTool(ctx context.Context, c loop.Call, v *View, caller tool.Caller, progress func(string, float64)) commands.Command {
	var question atomic.Pointer[tool.Verdict] // a manager may return while the tool still runs
	invoker := tool.Invoker{OnQuestion: func(_ tool.Call, q tool.Verdict) { question.Store(&q) }}
	call := tool.Call{
		Session: v.Session, Turn: c.Turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.EffectiveInput(),
		Attempt: c.Attempt, IdempotencyKey: string(v.Session) + "/" + string(c.Place), Approved: c.Approved,
		Resources: r.cfg.Resources, Caller: caller, Progress: progress,
	}
	local := func(ctx context.Context) tool.Result {
		o, ok := v.Catalog.Lookup(c.Name)
		if !ok {
			return tool.Failed(call, tool.NotFound(c.Name))
		}
		if c.Deadline != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadlineCause(ctx, c.Deadline.Std(), &tool.TimeoutError{After: c.Routing.Timeout})
			defer cancel()
		}
		if r.cfg.Permissions != (tool.AllowAll{}) {
			call.Permit = permission.Permit(r.cfg.Permissions, o.Tool, call)
		}
		return r.invoke(ctx, invoker, o.Tool, call)
	}
	res := r.managed(ctx, c, call, local)
	switch q := question.Load(); {
	case abandoned(ctx):
		return nil
	case q != nil:
		all := commands.QuestionsOf(*q)
		return commands.ReportQuestion{Place: c.Place, Attempt: c.Attempt, N: len(c.Approved), Question: all[0], Also: all[1:]}
	}
	return commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: res}
}

// managed lets the task manager run a call.
func (r *Runner) managed(ctx context.Context, c loop.Call, call tool.Call, local func(context.Context) tool.Result) (res tool.Result) {
	if r.cfg.Manager == nil {
		return local(ctx)
	}
	t := task.Task{
		Session: call.Session, Turn: c.Turn, Call: c.ID, Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Tool: c.Name,
		Input: call.Input, Effects: c.Routing.Effects, Deadline: c.Deadline, Approved: c.Approved, IdempotencyKey: call.IdempotencyKey,
	}
	err := safely("the task manager", func() error {
		res = r.cfg.Manager.Run(ctx, t, local)
		return nil
	})
	if err != nil {
		res = tool.Result{Result: content.NewResult(c.ID, c.Name, content.StatusError, "Tool failed: "+err.Error())}
	}
	return res
}

// invoke runs a tool, inside the durable wrapper if there is one.
func (r *Runner) invoke(ctx context.Context, v tool.Invoker, t tool.Tool, call tool.Call) (res tool.Result) {
	if r.cfg.Durable == nil {
		return v.Invoke(ctx, t, call)
	}
	tc := content.ToolCall{ID: call.ID, Place: call.Place, Name: call.Name, Input: call.Input}
	err := safely("the durable wrapper", func() error {
		out, err := r.cfg.Durable.CallTool(ctx, tc, func(ctx context.Context, c content.ToolCall) (content.ToolResult, error) {
			call.Input = c.Input
			res = v.Invoke(ctx, t, call)
			return res.Result, nil
		})
		res.Result = out
		return err
	})
	if err != nil {
		res.Result = content.NewResult(call.ID, call.Name, content.StatusError, "Tool failed: "+err.Error())
	}
	return res
}

// route lets the task manager decide how the loop waits for a call. If it panics, the tool's
// own route counts.
func (r *Runner) route(c content.ToolCall, found content.Routing) content.Routing {
	if r.cfg.Manager == nil || !found.Known {
		return found
	}
	by := found
	err := safely("the task manager", func() error {
		by = r.cfg.Manager.Route(c, found)
		return nil
	})
	if err != nil {
		r.cfg.Logger.Error("call keeps its tool's route", logfield.Call(c.ID), zap.Error(err))
	}
	found.Route, found.DetachAfter, found.Quiet, found.Manual = by.Route, by.DetachAfter, by.Quiet, by.Manual
	return found
}

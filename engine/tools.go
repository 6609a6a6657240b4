package engine

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// route lets the task manager say how the loop waits for a call. One that breaks
// says nothing.
func (r *Runner) route(c content.ToolCall, found content.Routing) content.Routing {
	if r.cfg.Manager == nil || !found.Known {
		return found
	}
	said, err := safely(func() (content.Routing, error) { return r.cfg.Manager.Route(c, found), nil })
	if err != nil {
		r.cfg.Logger.Error("the task manager broke", logfield.Call(c.ID), zap.Error(err))
		return found
	}
	found.Route, found.DetachAfter, found.Quiet, found.Manual = said.Route, said.DetachAfter, said.Quiet, said.Manual
	return found
}

// RunTool runs a call as the task manager wants it, in this process unless it says
// otherwise, and returns its report: a result, or the question that has to be
// answered first. It returns nil if ctx ended for any other cause than ErrStop: the
// attempt is lost. caller is for tools that do their work in a session of their own;
// nil: none.
func (r *Runner) RunTool(
	ctx context.Context, s content.SessionID, c loop.Call, cat *Catalog, caller tool.Caller, progress func(string, float64),
) commands.Command {
	h := here{runner: r, session: s, catalog: cat, caller: caller, progress: progress}
	res := r.managed(ctx, s, c, func(ctx context.Context) tool.Result { return h.run(ctx, c) })
	switch v := h.asked(); {
	case abandoned(ctx):
		return nil
	case v != nil:
		gates := commands.QuestionsOf(*v)
		return commands.ReportQuestion{Place: c.Place, Attempt: c.Attempt, N: len(c.Approved), Question: gates[0], Also: gates[1:]}
	}
	return commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: res}
}

func (r *Runner) managed(ctx context.Context, s content.SessionID, c loop.Call, local func(context.Context) tool.Result) tool.Result {
	if r.cfg.Manager == nil {
		return local(ctx)
	}
	t := task.Task{
		Session: s, Turn: c.Turn, Call: c.ID, Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Tool: c.Name,
		Input: c.EffectiveInput(), Effects: c.Routing.Effects, Deadline: c.Deadline, Approved: c.Approved,
		IdempotencyKey: idempotencyKey(s, c.Place),
	}
	res, err := safely(func() (tool.Result, error) { return r.cfg.Manager.Run(ctx, t, local), nil })
	if err != nil {
		res = tool.Result{Result: content.NewResult(c.ID, c.Name, content.StatusError, "Tool failed: the task manager: "+err.Error())}
	}
	return res
}

// here runs a call in this process.
type here struct {
	runner   *Runner
	session  content.SessionID
	catalog  *Catalog
	caller   tool.Caller
	progress func(string, float64)

	mu   sync.Mutex
	gate *tool.Verdict // what the tool asks for before it begins
}

func (h *here) asks(_ tool.Call, v tool.Verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = &v
}

func (h *here) asked() *tool.Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gate
}

func (h *here) run(ctx context.Context, c loop.Call) tool.Result {
	o, ok := h.catalog.Lookup(c.Name)
	if !ok {
		return tool.Result{Result: content.ToolResult{
			CallID: c.ID, Name: c.Name, Status: content.StatusError, IsError: true, Code: tool.CodeNotFound,
			Output: []content.Part{content.TextPart("Tool not found: " + c.Name)},
		}}
	}
	call := tool.Call{
		Session: h.session, Turn: c.Turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.EffectiveInput(),
		Attempt: c.Attempt, IdempotencyKey: idempotencyKey(h.session, c.Place), Approved: c.Approved,
		Resources: h.runner.cfg.Resources, Caller: h.caller, Progress: h.progress,
	}
	if c.Deadline != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.Deadline.Std(), &tool.TimeoutError{After: c.Routing.Timeout})
		defer cancel()
	}
	invoker := tool.Invoker{OnGate: h.asks}
	if h.runner.cfg.Durable == nil {
		return invoker.Invoke(ctx, o.Tool, call)
	}
	return h.runner.runDurable(ctx, invoker, o.Tool, call)
}

func idempotencyKey(s content.SessionID, p content.Place) string { return string(s) + "/" + string(p) }

func (r *Runner) runDurable(ctx context.Context, v tool.Invoker, t tool.Tool, call tool.Call) tool.Result {
	var res tool.Result
	tc := content.ToolCall{ID: call.ID, Place: call.Place, Name: call.Name, Input: call.Input}
	out, err := safely(func() (content.ToolResult, error) {
		return r.cfg.Durable.CallTool(ctx, tc, func(ctx context.Context, c content.ToolCall) (content.ToolResult, error) {
			call.Input = c.Input
			res = v.Invoke(ctx, t, call)
			return res.Result, nil
		})
	})
	if err != nil {
		res.Result = content.NewResult(call.ID, call.Name, content.StatusError, "Tool failed: "+err.Error())
		return res
	}
	res.Result = out
	return res
}

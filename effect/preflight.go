package effect

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// Call is a call that wants to be checked.
type Call struct {
	content.ToolCall // with the effective input
	Digest           string
}

// CallsOf returns the calls of a round as they would run.
func CallsOf(calls []loop.Call) []Call {
	out := make([]Call, len(calls))
	for i, c := range calls {
		tc := c.ToolCall
		tc.Input = c.EffectiveInput()
		out[i] = Call{ToolCall: tc, Digest: c.Digest}
	}
	return out
}

// Check judges calls before any of them runs: lookup, schema, then all permission
// requests of each. A Deny of any request wins before anybody is asked.
func (r *Runner) Check(ctx context.Context, s content.SessionID, turn content.TurnID, cat *Catalog, calls []Call) []commands.Check {
	out := make([]commands.Check, 0, len(calls))
	for _, c := range calls {
		k := r.checkSafely(ctx, s, turn, cat, c)
		k.Place, k.Digest = c.Place, c.Digest
		out = append(out, k)
	}
	return out
}

// CheckPatched judges one call with other arguments.
func (r *Runner) CheckPatched(ctx context.Context, s content.SessionID, cat *Catalog, c loop.Call, input json.RawMessage) commands.Check {
	tc := c.ToolCall
	tc.Input = input
	return r.Check(ctx, s, c.Turn, cat, []Call{{ToolCall: tc, Digest: tool.Digest(input)}})[0]
}

// checkSafely isolates what breaks in a tool or in the host's policy: such a call
// does not run.
func (r *Runner) checkSafely(
	ctx context.Context, s content.SessionID, turn content.TurnID, cat *Catalog, c Call,
) (k commands.Check) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Error("the check of a call broke", logfield.Session(s), logfield.Call(c.ID), zap.Any("panic", p))
			k = refused(content.StatusError, tool.CodePanic, "Tool failed: the check of the call broke")
		}
	}()
	return r.checkOne(ctx, s, turn, cat, c)
}

func (r *Runner) checkOne(ctx context.Context, s content.SessionID, turn content.TurnID, cat *Catalog, c Call) commands.Check {
	o, ok := cat.Lookup(c.Name)
	if !ok {
		return refused(content.StatusError, tool.CodeNotFound, "Tool not found: "+c.Name)
	}
	if err := tool.Validate(o.Tool, c.Input); err != nil {
		return refused(content.StatusError, tool.CodeInvalidArguments, err.Error())
	}
	requests, err := propose(ctx, o.Tool, tool.Call{Session: s, Turn: turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input})
	if err != nil {
		return refused(content.StatusError, tool.CodeFailed, "Tool failed: "+err.Error())
	}
	var k commands.Check
	for _, q := range requests {
		q.Session, q.Call, q.Spec = s, c.ToolCall, o.Tool.Spec()
		v, err := r.cfg.Permissions.Evaluate(ctx, q)
		switch {
		case err != nil:
			return refused(content.StatusDenied, tool.CodeDenied, fmt.Sprintf("Permission denied: %s: %v", tool.CodeDenied, err))
		case v.Ruling == tool.Deny:
			return refused(content.StatusDenied, v.Code, fmt.Sprintf("Permission denied: %s: %s", v.Code, v.Message))
		case v.Ruling == tool.Ask:
			k.Gates = append(k.Gates, gate(q, v))
		}
	}
	return k
}

func propose(ctx context.Context, t tool.Tool, c tool.Call) ([]tool.Request, error) {
	if p, ok := t.(tool.Proposer); ok {
		return p.Propose(ctx, c)
	}
	return []tool.Request{tool.RequestFor(t.Spec(), c)}, nil
}

func refused(s content.Status, code, message string) commands.Check {
	return commands.Check{Refusal: &commands.Refusal{Status: s, Code: code, Message: message}}
}

func gate(q tool.Request, v tool.Verdict) commands.Gate {
	g := commands.Gate{RequestKind: v.RequestKind, Reason: v.Reason, Summary: v.Summary, Metadata: v.Metadata, TTL: v.TTL}
	if g.RequestKind == "" {
		g.RequestKind = q.Kind
	}
	if g.RequestKind == "" {
		g.RequestKind = q.Call.Name
	}
	if g.Reason == "" {
		g.Reason = content.PolicyRequiresConfirmation
	}
	if g.Summary == "" {
		g.Summary = q.Summary
	}
	if g.Summary == "" {
		g.Summary = q.Call.Name + " " + string(q.Call.Input)
	}
	return g
}

// Preflight checks the calls of a round. If hooks stand at PreToolExecution and
// every call may run, the answer carries theirs for the first call.
func (r *Runner) Preflight(ctx context.Context, s content.SessionID, e loop.Preflight, cat *Catalog) commands.Command {
	calls := CallsOf(e.Calls)
	rep := commands.ReportPreflight{Turn: e.Turn, Round: e.Round, Checks: r.Check(ctx, s, e.Turn, cat, calls)}
	if e.Hooks && len(calls) > 0 {
		rep.Hooks = []commands.HookAnswer{r.Hooks(ctx, extension.HookEvent{
			Point: extension.PreToolExecution, Session: s, Turn: e.Turn, Round: e.Round - 1, Call: &calls[0].ToolCall,
		})}
	}
	if ctx.Err() != nil {
		return nil
	}
	return rep
}

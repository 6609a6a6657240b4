package engine

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
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
// requests of each, by the rules of the session and of the turn, and by what the host permits. A Deny of
// any request wins before any question is asked.
func (r *Runner) Check(
	ctx context.Context, s content.SessionID, turn content.TurnID, rules loop.Rules, cat *Catalog, calls []Call,
) []commands.Check {
	out := make([]commands.Check, 0, len(calls))
	for _, c := range calls {
		k := r.checkSafely(ctx, s, turn, rules, cat, c)
		k.Place, k.Digest = c.Place, c.Digest
		out = append(out, k)
	}
	return out
}

// CheckPatched judges the call that a decision gives other arguments; nil if the
// decision gives none or decides nothing.
func (r *Runner) CheckPatched(ctx context.Context, s *loop.State, cat *Catalog, d commands.ResolveApproval) []commands.Check {
	if d.Input == nil {
		return nil
	}
	for _, a := range s.PendingApprovals() {
		if d.Approval != "" && a.ID != d.Approval || d.Call != "" && a.CallID != d.Call {
			continue
		}
		if c, ok := s.Call(a.CallID); ok {
			patched := c.ToolCall
			patched.Input = d.Input
			return r.Check(ctx, s.Session, c.Turn, s.RulesFor(*c), cat, []Call{{ToolCall: patched, Digest: tool.Digest(d.Input)}})
		}
	}
	return nil
}

// checkSafely isolates what breaks in a tool or in the host's policy: such a call
// does not run.
func (r *Runner) checkSafely(
	ctx context.Context, s content.SessionID, turn content.TurnID, rules loop.Rules, cat *Catalog, c Call,
) (k commands.Check) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Error("the check of a call broke", logfield.Session(s), logfield.Call(c.ID), zap.Any("panic", p))
			k = refused(content.StatusError, tool.CodePanic, "Tool failed: the check of the call broke")
		}
	}()
	return r.checkOne(ctx, s, turn, rules, cat, c)
}

func (r *Runner) checkOne(
	ctx context.Context, s content.SessionID, turn content.TurnID, rules loop.Rules, cat *Catalog, c Call,
) commands.Check {
	o, ok := cat.Lookup(c.Name)
	if !ok {
		return refused(content.StatusError, tool.CodeNotFound, "Tool not found: "+c.Name)
	}
	if err := tool.Validate(o.Tool, c.Input); err != nil {
		return refused(content.StatusError, tool.CodeInvalidArguments, err.Error())
	}
	call := tool.Call{Session: s, Turn: turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input}
	host := &recordingPolicy{Permissions: r.cfg.Permissions, spec: tool.Declared(o.Tool)}
	j := permission.Judge(ctx, permission.All(permission.Rules(rules.Session), narrowing(rules.Turn), host), o.Tool, call)
	if no := j.Refusal; no != nil {
		return refused(no.Status, no.Code, no.Text())
	}
	var k commands.Check
	for _, g := range j.Gates {
		k.Questions = append(k.Questions, commands.QuestionsOf(g)...)
	}
	about := tool.Request{Call: c.ToolCall, Spec: o.Spec}
	for i := range k.Questions {
		if k.Questions[i].RequestKind == permission.KindCall {
			k.Questions[i].Asker = host.asker(ctx, rules, about)
		}
	}
	return k
}

func refused(s content.Status, code, message string) commands.Check {
	return commands.Check{Refusal: &commands.Refusal{Status: s, Code: code, Message: message}}
}

// Preflight checks the calls of a round. If hooks stand at PreToolExecution and
// every call may run, the answer carries theirs for the first call.
func (r *Runner) Preflight(ctx context.Context, e loop.Preflight, v *View) commands.Command {
	calls := CallsOf(e.Calls)
	rep := commands.ReportPreflight{Turn: e.Turn, Round: e.Round, Checks: r.Check(ctx, v.Session, e.Turn, e.Rules, v.Catalog, calls)}
	if e.Hooks && len(calls) > 0 {
		rep.Hooks = []commands.HookAnswer{r.Hooks(ctx, extension.HookEvent{
			Point: extension.PreToolExecution, Session: v.Session, Turn: e.Turn, Round: e.Round - 1, Call: &calls[0].ToolCall,
		})}
	}
	if ctx.Err() != nil {
		return nil
	}
	return rep
}

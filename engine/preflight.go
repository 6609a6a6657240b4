package engine

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// Preflight checks the calls of a round. If the effect asks for hooks, the report has the
// answers of the PreToolExecution hooks for the first call that may run.
func (r *Runner) Preflight(ctx context.Context, e loop.Preflight, v *View) commands.Command {
	rep := commands.ReportPreflight{Turn: e.Turn, Round: e.Round, Checks: r.check(ctx, e, v)}
	if i := firstToRun(rep.Checks); e.Hooks && i >= 0 {
		first := effective(e.Calls[i])
		rep.Hooks = []commands.HookAnswer{r.Hooks(ctx, extension.HookEvent{
			Point: extension.PreToolExecution, Session: v.Session, Turn: e.Turn, Round: e.Round - 1, Call: &first,
		})}
	}
	if ctx.Err() != nil {
		return nil
	}
	return rep
}

// firstToRun returns the first call that no check refuses, or -1 if none may run yet: one question
// holds the whole round.
func firstToRun(checks []commands.Check) int {
	if slices.ContainsFunc(checks, func(k commands.Check) bool { return len(k.Questions) > 0 }) {
		return -1
	}
	return slices.IndexFunc(checks, func(k commands.Check) bool { return k.Refusal == nil })
}

// CheckInput returns the step that checks what a command itself says about calls: the call that the sender of a
// decision saw, which another decision may have changed since, the new arguments of an approval, and the open calls
// of a round that a session begins with.
func (s *Session) CheckInput(by func() *Runner) Step {
	return Step{"input", func(ctx context.Context, env *commands.Envelope) error {
		if o, ok := env.Command.(commands.OpenSession); ok && o.Resume {
			_, reply, _ := content.OpenRound(o.Transcript)
			for _, it := range reply {
				for _, c := range it.Calls() {
					env.Routing = append(env.Routing, by().route(c, s.Catalog.Route(c, o.Config.Routes)))
				}
			}
			return nil
		}
		d, ok := env.Command.(commands.ResolveApproval)
		if ok && d.Shown != "" {
			if a, pending := statement.Asked(s.State.PendingApprovals(), d); pending && statement.Shown(a) != d.Shown {
				return commands.Refuse(commands.ReasonChanged, "call %s has other arguments now, or is asked about in another way", a.CallID)
			}
		}
		if !ok || d.Input == nil {
			return nil
		}
		for _, a := range s.State.PendingApprovals() {
			if d.Approval != "" && a.ID != d.Approval || d.Call != "" && a.CallID != d.Call {
				continue
			}
			if c, ok := s.State.Call(a.CallID); ok {
				patched := loop.Call{ToolCall: c.ToolCall, Input: d.Input, Digest: tool.Digest(d.Input), Routing: c.Routing}
				e := loop.Preflight{Turn: c.Turn, Rules: s.State.RulesFor(*c), Calls: []loop.Call{patched}}
				env.Checks = by().check(ctx, e, &View{Session: s.State.Session, Catalog: s.Catalog})
				return nil
			}
		}
		return nil
	}}
}

// effective returns a call as it would run.
func effective(c loop.Call) content.ToolCall {
	c.ToolCall.Input = c.EffectiveInput()
	return c.ToolCall
}

// check judges calls before any of them runs. A panic in a tool or in the host's policy refuses
// the call.
func (r *Runner) check(ctx context.Context, e loop.Preflight, v *View) []commands.Check {
	out := make([]commands.Check, len(e.Calls))
	for i, c := range e.Calls {
		err := safely("the check", func() error {
			out[i] = r.checkOne(ctx, e, v, effective(c), c.Routing.Queue)
			return nil
		})
		if b, ok := errors.AsType[*brokenError](err); ok {
			r.cfg.Logger.Error("check of a call panicked", logfield.Session(v.Session), logfield.Call(c.ID), zap.Any("panic", b.value))
			out[i] = refused(content.StatusError, tool.CodePanic, "Tool failed: the check of the call panicked")
		}
		out[i].Place, out[i].Digest = c.Place, c.Digest
	}
	return out
}

// checkOne looks up the tool, validates the input, and evaluates every request of the call: by the
// policy, the rules of the session and the turn, and the host. A denial of any request overrides
// all questions.
func (r *Runner) checkOne(ctx context.Context, e loop.Preflight, v *View, c content.ToolCall, queue string) (k commands.Check) {
	o, ok := v.Catalog.Lookup(c.Name)
	if !ok {
		return refused(content.StatusError, tool.CodeNotFound, "Tool not found: "+c.Name)
	}
	if err := tool.Validate(o.Tool, c.Input); err != nil {
		return refused(content.StatusError, tool.CodeInvalidArguments, err.Error())
	}
	declared := tool.Declared(o.Tool)
	host := &recordingPolicy{Permissions: r.cfg.Permissions, spec: declared}
	applied := permission.Applied{Policy: e.Rules.Policy, Queue: queue, Effects: declared.Effects}
	call := tool.Call{Session: v.Session, Turn: e.Turn, ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input}
	questions, err := permission.Judge(ctx, permission.All(applied, permission.Rules(e.Rules.Session), narrowing(e.Rules.Turn), host), o.Tool, call)
	if err != nil {
		r := tool.Failed(call, err).Result
		return refused(r.Status, r.Code, r.Text())
	}
	for _, q := range questions {
		k.Questions = append(k.Questions, commands.QuestionsOf(q)...)
	}
	for i := range k.Questions {
		if k.Questions[i].RequestKind == permission.KindCall {
			k.Questions[i].Asker = host.asker(ctx, permission.All(applied, permission.Rules(e.Rules.Session)), e.Rules.Turn, tool.Request{Call: c, Spec: o.Spec})
		}
	}
	return k
}

func refused(s content.Status, code, message string) commands.Check {
	return commands.Check{Refusal: &commands.Refusal{Status: s, Code: code, Message: message}}
}

// recordingPolicy is the host's policy. It records whether it asked about a call as a whole, as
// rules do. It judges by what the tool declares and ignores the terms of the session's agent.
type recordingPolicy struct {
	tool.Permissions

	spec  tool.Spec
	asked bool
}

// Evaluate asks the host.
func (p *recordingPolicy) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	r.Spec = p.spec
	v, err := p.Permissions.Evaluate(ctx, r)
	if err == nil && v.Ruling == tool.Ask {
		p.asked = p.asked || slices.ContainsFunc(v.Questions(), func(q tool.Verdict) bool { return q.RequestKind == permission.KindCall })
	}
	return v, err
}

// asker returns what asks about a call as a whole. The turn comes first; the rules of the policy and
// the session are named only if nothing else asks.
func (p *recordingPolicy) asker(ctx context.Context, rules tool.Permissions, turn [][]events.Rule, about tool.Request) events.Asker {
	asks := func(p tool.Permissions) bool {
		v, err := p.Evaluate(ctx, about)
		return err == nil && v.Ruling == tool.Ask
	}
	switch {
	case asks(narrowing(turn)):
		return events.AskedByTurn
	case !p.asked && asks(rules):
		return events.AskedByRules
	}
	return ""
}

// narrowing returns a turn's rules as a policy.
func narrowing(lists [][]events.Rule) tool.Permissions {
	all := make([]tool.Permissions, len(lists))
	for i, l := range lists {
		all[i] = permission.Narrowing(l)
	}
	return permission.All(all...)
}

package permission

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// Rules judge calls by the name of the tool. The first rule whose pattern matches counts. An empty
// list has no opinion. Otherwise a tool that no rule matches is guarded: it is allowed if its spec
// says that it only reads; if not, a person is asked.
//
// A question is about the tool itself, so a permanent approval covers all later calls of the tool. For
// a tool that runs commands, it covers only calls with the same command.
type Rules []events.Rule

var _ tool.Permissions = Rules(nil)

// Check returns an error if a rule names no tool or an unknown action.
func (rs Rules) Check() error {
	for i, r := range rs {
		if err := r.Check(); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return nil
}

// Evaluate judges the request by the name of its tool.
func (rs Rules) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if len(rs) == 0 {
		return tool.Verdict{}, nil
	}
	action, rule := events.Ruling(rs, r.Call.Name, "", r.Spec.Effects)
	return verdict(action, rule, "the rule", r.Call.Name), nil
}

func verdict(a events.Action, rule events.Rule, what, name string) tool.Verdict {
	switch {
	case a == events.RuleAllow:
		return allow()
	case a == events.RuleAsk:
		return ask(KindCall, "", content.PolicyRequiresConfirmation, "")
	case rule.Action == events.RuleDeny:
		return deny(CodeRule, "%s %s denies calls of %s", what, rule.Tool, name)
	}
	return deny(CodeRule, "%s %s has the unknown action %s", what, rule.Tool, rule.Action) // a later release wrote it
}

// Applied is the policy that applies to a session, for calls that run on a queue. It judges by
// the effects that the tool itself declares.
type Applied struct {
	Policy  events.Policy
	Queue   string
	Effects content.Effects
}

var _ tool.Permissions = Applied{}

// Evaluate judges the request by the name of its tool and the queue.
func (p Applied) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	action, rule := p.Policy.Ruling(r.Call.Name, p.Queue, p.Effects)
	if action == events.RuleAllow && len(p.Policy.Rules) == 0 {
		return tool.Verdict{}, nil
	}
	return verdict(action, rule, "the policy's rule", r.Call.Name), nil
}

// Narrowing rules only restrict: they have no opinion about what they allow, or about tools that no
// rule matches. The first rule whose pattern matches counts.
type Narrowing []events.Rule

var _ tool.Permissions = Narrowing(nil)

// Evaluate judges the request by the name of its tool.
func (n Narrowing) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	v, err := append(slices.Clip(Rules(n)), events.Rule{Tool: "*", Action: events.RuleAllow}).Evaluate(ctx, r)
	if v.Ruling == tool.Allow {
		return tool.Verdict{}, err
	}
	return v, err
}

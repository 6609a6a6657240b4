package permission

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// Rules judge calls by the name of the tool. The first rule whose pattern matches counts.
// An empty list has no opinion; otherwise a tool that no rule matches is guarded: it is
// allowed if its spec says that it only reads, and asked about if not.
//
// A question is about the tool itself, so a permanent approval covers all later calls of
// the tool; of a tool that runs commands, those of the same program.
type Rules []events.Rule

var _ tool.Permissions = Rules(nil)

// Check returns an error if a rule names no tool or an unknown action.
func (rs Rules) Check() error {
	actions := []events.Action{events.RuleAllow, events.RuleAsk, events.RuleDeny, events.RuleGuard}
	for i, r := range rs {
		switch {
		case r.Tool == "":
			return fmt.Errorf("rule %d: no tool: use a name, in which * stands for any characters", i+1)
		case !slices.Contains(actions, r.Action):
			return fmt.Errorf("rule %d: action %q: use allow, ask, deny or guard", i+1, r.Action)
		}
	}
	return nil
}

// Evaluate judges the request by the name of its tool.
func (rs Rules) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if len(rs) == 0 {
		return tool.Verdict{}, nil
	}
	action, pattern := events.RuleGuard, "*"
	if i := slices.IndexFunc(rs, func(rule events.Rule) bool { return content.Matches(rule.Tool, r.Call.Name) }); i >= 0 {
		action, pattern = rs[i].Action, rs[i].Tool
	}
	switch {
	case action == events.RuleAllow, action == events.RuleGuard && r.Spec.Effects == content.ReadOnly:
		return allow(), nil
	case action == events.RuleAsk, action == events.RuleGuard:
		return ask(KindCall, "", content.PolicyRequiresConfirmation, ""), nil
	case action == events.RuleDeny:
		return deny(CodeRule, "the rule %s denies calls of %s", pattern, r.Call.Name), nil
	}
	return deny(CodeRule, "the rule %s has the unknown action %s", pattern, action), nil // of a later release
}

// Narrowing are rules that only restrict: they have no opinion about what they allow and
// about tools that no rule matches. The first rule whose pattern matches counts.
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

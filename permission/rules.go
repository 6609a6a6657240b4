package permission

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// Rules say by the name of a tool what its calls may do. The first rule whose
// pattern fits counts. Without any rule they have no opinion; with rules, a tool that
// none fits is guarded: allowed if its spec says that it only reads, and asked about
// otherwise.
//
// A question is about the tool as such, so an approval for always is about all later
// calls of that tool; of a tool that runs commands, about those of the same program.
type Rules []events.Rule

var _ tool.Permissions = Rules(nil)

// Check returns an error if a rule cannot mean anything: it names no tool, or no
// action that there is.
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
	rule := events.Rule{Tool: "*", Action: events.RuleGuard}
	if i := slices.IndexFunc(rs, func(rule events.Rule) bool { return matches(rule.Tool, r.Call.Name) }); i >= 0 {
		rule = rs[i]
	}
	if rule.Action == events.RuleGuard {
		rule.Action = events.RuleAsk
		if r.Spec.Effects == content.ReadOnly {
			rule.Action = events.RuleAllow
		}
	}
	switch rule.Action {
	case events.RuleAllow:
		return allow(), nil
	case events.RuleAsk:
		return ask(KindCall, "", content.PolicyRequiresConfirmation, ""), nil
	case events.RuleDeny:
		return deny(CodeRule, "the rule %s denies calls of %s", rule.Tool, r.Call.Name), nil
	default: // of a later release
		return deny(CodeRule, "the rule %s has the unknown action %s", rule.Tool, rule.Action), nil
	}
}

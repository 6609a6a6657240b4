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
	rule, ok := first(rs, r)
	if !ok {
		rule = events.Rule{Tool: "*", Action: events.RuleGuard}
	}
	return judged(rule, r), nil
}

// Narrowing are rules that only take away: what they allow is left to others, and so is
// a tool that none of them fits. The first rule whose pattern fits counts.
type Narrowing []events.Rule

var _ tool.Permissions = Narrowing(nil)

// Evaluate judges the request by the name of its tool.
func (n Narrowing) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	rule, ok := first(n, r)
	if !ok {
		return tool.Verdict{}, nil
	}
	if v := judged(rule, r); v.Ruling != tool.Allow {
		return v, nil
	}
	return tool.Verdict{}, nil
}

// first is the rule that counts, if one fits.
func first(rules []events.Rule, r tool.Request) (events.Rule, bool) {
	i := slices.IndexFunc(rules, func(rule events.Rule) bool { return content.Matches(rule.Tool, r.Call.Name) })
	if i < 0 {
		return events.Rule{}, false
	}
	return rules[i], true
}

// judged is what a rule makes of a request that it fits.
func judged(rule events.Rule, r tool.Request) tool.Verdict {
	if rule.Action == events.RuleGuard {
		rule.Action = events.RuleAsk
		if r.Spec.Effects == content.ReadOnly {
			rule.Action = events.RuleAllow
		}
	}
	switch rule.Action {
	case events.RuleAllow:
		return allow()
	case events.RuleAsk:
		return ask(KindCall, "", content.PolicyRequiresConfirmation, "")
	case events.RuleDeny:
		return deny(CodeRule, "the rule %s denies calls of %s", rule.Tool, r.Call.Name)
	default: // of a later release
		return deny(CodeRule, "the rule %s has the unknown action %s", rule.Tool, rule.Action)
	}
}

package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/events"
)

// ruleFlag adds a rule of one action to those of the command line, in whose order
// they count.
type ruleFlag struct {
	rules  *[]events.Rule
	action events.Action
}

// ruleFlagNames are the flags that make rules.
func ruleFlagNames() []string { return []string{"allow", "ask", "deny"} }

func registerRules(cmd *cobra.Command, rules *[]events.Rule) {
	fs := cmd.Flags()
	fs.Var(&ruleFlag{rules, events.RuleAllow}, "allow", "in a new session, run calls of the tools that `pattern` names; * stands for any characters")
	fs.Var(&ruleFlag{rules, events.RuleAsk}, "ask", "in a new session, have a person approve calls of the tools that `pattern` names")
	fs.Var(&ruleFlag{rules, events.RuleDeny}, "deny", "in a new session, refuse calls of the tools that `pattern` names")
}

// Set adds a rule.
func (f *ruleFlag) Set(pattern string) error {
	if pattern == "" {
		return errors.New("use a tool's name, in which * stands for any characters")
	}
	*f.rules = append(*f.rules, events.Rule{Tool: pattern, Action: f.action})
	return nil
}

// String is empty, as the default is.
func (f *ruleFlag) String() string { return "" }

// Type names what the flag takes.
func (f *ruleFlag) Type() string { return "pattern" }

// otherRules names a flag that was given and asks for other rules than the session
// has, or "".
func otherRules(want, have []events.Rule, given func(flag string) bool) string {
	if slices.Equal(want, have) {
		return ""
	}
	for _, flag := range ruleFlagNames() {
		if given(flag) {
			return flag
		}
	}
	return ""
}

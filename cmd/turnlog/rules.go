package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/events"
)

// ruleFlag adds a rule of one action to those of the command line, in whose order
// they count.
type ruleFlag struct {
	rules  *[]events.Rule
	action events.Action
}

func registerRules(cmd *cobra.Command, rules *[]events.Rule) {
	fs := cmd.Flags()
	fs.Var(&ruleFlag{rules, events.RuleAllow}, "allow", "run calls of the tools that `pattern` names; * stands for any characters; in a session that exists this is a decision for good")
	fs.Var(&ruleFlag{rules, events.RuleAsk}, "ask", "have a person approve calls of the tools that `pattern` names")
	fs.Var(&ruleFlag{rules, events.RuleDeny}, "deny", "refuse calls of the tools that `pattern` names")
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

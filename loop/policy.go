package loop

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Rules judge calls by tool name. The strictest verdict of policy, session and turn counts.
type Rules struct {
	Policy  events.Policy
	Session []events.Rule
	Turn    [][]events.Rule
}

// RulesFor returns the rules for a call. The rules of its turn apply even after the turn.
func (s *State) RulesFor(c Call) Rules {
	return Rules{Policy: s.Policy, Session: s.Config.Rules, Turn: c.Rules}
}

// rules returns the rules for calls that the open turn makes now.
func (s *State) rules() Rules {
	return Rules{Policy: s.Policy, Session: s.Config.Rules, Turn: s.turnOptions().Rules}
}

// VerifierTool is the tool that runs the verifiers of tasks, by which a policy names them.
const VerifierTool = "turnlog_gate"

// Kinds of questions that the core asks by itself.
const (
	KindVerifier = "task.verifier" // a command that verifies the work of a task
	KindRetry    = "tool.retry"    // may a call that was lost run again?
)

// recordPolicy records what the host's policy allows the session, if that has changed.
func (d *decision) recordPolicy() {
	if p := d.env.Policy; p != nil && d.Opened && !d.Closed && !p.Equal(d.Policy) {
		d.emit(events.PolicyApplied{Policy: *p})
	}
}

// mayStart reports whether the policy lets an attempt at the call start. The policy may have changed since the
// call was checked: a call that it now denies is answered, one that it now asks about waits for a person. What a
// person has approved stays approved.
func (d *decision) mayStart(c Call) bool {
	action, rule := d.Policy.Ruling(c.Name, c.Routing.Queue, c.Routing.DeclaredEffects())
	switch {
	case action == events.RuleAllow, action == events.RuleAsk && d.approvedCall(c):
		return true
	case action == events.RuleAsk:
		d.ask(c, commands.Question{
			RequestKind: events.QuestionCall, Scope: c.Digest, Reason: content.PolicyRequiresConfirmation,
			Summary: events.CallSummary(c.Name, c.EffectiveInput()), Asker: events.AskedByRules,
		}, c.Digest)
		return d.approvedCall(c)
	}
	text := content.DenialText(policyDenies(rule, c.Name))
	if now, ok := d.Call(c.ID); ok && now.Lost > 0 {
		text += textNotRetry
	}
	d.resolveQuestions(c.ID, events.Moot)
	d.answer(c, content.StatusDenied, codeRule, text)
	return false
}

// because lists the grounds on which a call may start now. It leaves out what a worker's and the host's policies
// allow: they judge what the call does, and only their questions and denials are recorded.
func (d *decision) because(c Call) []events.Ground {
	all := events.GroundsOf(d.Policy, d.Config.Rules, c.Rules, c.Name, c.Routing)
	for _, a := range d.approvals() {
		if a.CallID == c.ID && a.Outcome == events.Approved {
			all = append(all, events.Ground{By: events.ByApproval, Name: string(a.ID)})
		}
	}
	if d.Turn != nil && slices.Contains(d.Turn.Hooks, HookPoint{pointPreTool, c.ID}) {
		all = append(all, events.GroundsOfHooks(d.Config.Hooks, pointPreTool)...)
	}
	return all
}

func policyDenies(r events.Rule, tool string) string {
	return fmt.Sprintf("%s: the policy's rule %s denies calls of %s", codeRule, r.Tool, tool)
}

// approvedCall reports whether a person approved the call itself.
func (d *decision) approvedCall(c Call) bool {
	return slices.ContainsFunc(c.Approved, func(k content.QuestionKey) bool {
		return k.Kind == events.QuestionCall && (k.Scope == "" || k.Scope == c.Digest)
	}) ||
		slices.ContainsFunc(d.approvals(), func(a Approval) bool {
			return a.CallID == c.ID && a.RequestKind == events.QuestionCall && a.Outcome == events.Approved
		})
}

// grantable refuses to allow a tool that the policy denies.
func (d *decision) grantable(tool string) error {
	action, rule := d.Policy.Ruling(tool, "", content.ReadOnly)
	if action == events.RuleDeny && rule.Queue == "" {
		return commands.Refuse(commands.ReasonPolicy, "%s", policyDenies(rule, tool))
	}
	return nil
}

// mayVerify reports whether the policy lets the task's verifier run. The user who opened the task chose its command.
// If a person must decide first, the question is asked once per task.
func (d *decision) mayVerify() (now bool, denied string) {
	argv := d.Task.Spec.Verifier
	action, rule := d.Policy.Ruling(VerifierTool, "", content.Once)
	switch {
	case len(argv) == 0, action == events.RuleAllow: // without a command the verifier is a function of the host
		return true, ""
	case action == events.RuleDeny:
		return false, policyDenies(rule, VerifierTool)
	}
	a, asked := d.verifierApproval()
	if !asked {
		d.askVerifier(argv)
		a, _ = d.verifierApproval()
	}
	switch a.Outcome {
	case "", events.Approved:
		return a.Outcome == events.Approved, ""
	default:
		return false, "the verifier was not approved: " + string(a.Outcome)
	}
}

// verifierApproval returns the question about the task's verifier.
func (s *State) verifierApproval() (a Approval, asked bool) {
	i := slices.IndexFunc(s.Turn.Approvals, func(a Approval) bool { return a.RequestKind == KindVerifier && a.Tool == VerifierTool })
	if i < 0 {
		return a, false
	}
	return s.Turn.Approvals[i], true
}

func (d *decision) askVerifier(argv []string) {
	input, _ := json.Marshal(map[string][]string{"argv": argv}) // strings never fail
	place := content.VerifierPlace(d.Turn.N, d.Task.Attempts+1)
	c := Call{
		ToolCall: content.ToolCall{ID: content.CallID(place), Place: place, Name: VerifierTool, Input: input},
		Turn:     d.Turn.ID, Round: d.Turn.Round,
	}
	d.ask(c, commands.Question{
		RequestKind: KindVerifier, Scope: string(input), Reason: content.PolicyRequiresConfirmation,
		Summary: fmt.Sprintf("run the verifier %q", argv), Asker: events.AskedByRules,
	}, "")
}

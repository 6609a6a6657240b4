package events

import (
	"slices"

	"github.com/turnlog/turnlog/content"
)

// PolicyApplied records what the policy of the session's host allows from here on. It is
// recorded when the session opens or gets a host with a policy, and whenever that differs
// from what was recorded.
type PolicyApplied struct {
	Policy Policy `msgpack:"p" json:"policy"`
}

// Policy is what a deployment, or the program that runs an agent, allows a session. The rules of
// sessions, agents and turns only restrict it.
type Policy struct {
	Name     string    `msgpack:"n,omitempty" json:"name,omitempty"`     // name of the document, for people
	Digest   string    `msgpack:"d" json:"digest"`                       // digest of the document
	Subjects []Subject `msgpack:"s,omitempty" json:"subjects,omitempty"` // the session, then the sessions that it works for
	Rules    [][]Rule  `msgpack:"r" json:"rules"`                        // lists that apply to the subjects; the strictest one counts
}

// Subject is what a policy knows about a session.
type Subject struct {
	Agent  string `msgpack:"a,omitempty" json:"agent,omitempty"`
	Opener string `msgpack:"o,omitempty" json:"opener,omitempty"`

	// The claims say that only the opener names the agent or itself, so rules about the name only restrict.
	// Without the claim, the server verified the opener.
	AgentClaimed  bool `msgpack:"ac,omitempty" json:"agent_claimed,omitempty"`
	OpenerClaimed bool `msgpack:"oc,omitempty" json:"opener_claimed,omitempty"`
}

// Ruling returns the strictest ruling of the lists about a call, and its rule. If all lists allow the
// call, that is the rule of the first list. A policy without lists, as in sessions of releases without
// policies, allows every call and returns no rule.
func (p Policy) Ruling(tool, queue string, effects content.Effects) (Action, Rule) {
	action, rule := RuleAllow, Rule{}
	for i, list := range p.Rules {
		switch a, r := Ruling(list, tool, queue, effects); {
		case a == RuleDeny:
			return a, r
		case a == RuleAsk, i == 0:
			action, rule = a, r
		}
	}
	return action, rule
}

// Equal reports whether both are the same policy, from the same document.
func (p Policy) Equal(o Policy) bool {
	return p.Name == o.Name && p.Digest == o.Digest && slices.Equal(p.Subjects, o.Subjects) &&
		slices.EqualFunc(p.Rules, o.Rules, slices.Equal[[]Rule])
}

// ToolsAllowed records that an approver approved the calls of some tools for the rest of
// the session. It answers questions of the policy's and the session's rules, and no others.
type ToolsAllowed struct {
	Grant content.ApprovalID `msgpack:"g" json:"grant"` // grant-1, grant-2, …
	Tools []string           `msgpack:"t" json:"tools"` // name patterns, see content.Matches
	By    string             `msgpack:"b,omitempty" json:"by,omitempty"`
	User  string             `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

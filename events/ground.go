package events

import (
	"slices"

	"github.com/turnlog/turnlog/content"
)

// Ground is one reason why a call may start.
type Ground struct {
	By GroundKind `msgpack:"b" json:"by"`

	Name   string `msgpack:"n,omitempty" json:"name,omitempty"`   // the pattern of a rule, the id of an approval, the name of a hook, the effects
	Action Action `msgpack:"a,omitempty" json:"action,omitempty"` // action of a rule
	Queue  string `msgpack:"q,omitempty" json:"queue,omitempty"`  // queue pattern of a rule
}

// GroundKind is the kind of a Ground.
type GroundKind string

// The kinds of grounds. A rule that asks is a ground together with the approval that answers it.
const (
	ByPolicy   GroundKind = "policy"   // a rule of the policy of the session's host
	ByRule     GroundKind = "rule"     // a rule of the session, from its agent or the flags that opened it
	ByFlag     GroundKind = "flag"     // a rule of the turn, from the flags of its input
	ByApproval GroundKind = "approval" // an approval of the call
	ByHook     GroundKind = "hook"     // a hook of the host that could have stopped the call
	ByEffects  GroundKind = "effects"  // an attempt was lost, and the tool's effects permit another one
	ByRetry    GroundKind = "retry"    // a person retried a dead letter
)

// GroundOf returns the ground for a call that a rule allows.
func GroundOf(by GroundKind, r Rule) Ground {
	return Ground{By: by, Name: r.Tool, Action: r.Action, Queue: r.Queue}
}

// GroundsOf lists the rules of a policy, a session and a turn that apply to a call. The rules of a turn
// only restrict, so only those that name the tool are listed.
func GroundsOf(p Policy, session []Rule, turn [][]Rule, tool string, routing content.Routing) (all []Ground) {
	if len(p.Rules) > 0 {
		_, rule := p.Ruling(tool, routing.Queue, routing.DeclaredEffects())
		all = append(all, GroundOf(ByPolicy, rule))
	}
	if len(session) > 0 {
		_, rule := Ruling(session, tool, "", routing.Effects)
		all = append(all, GroundOf(ByRule, rule))
	}
	for _, list := range turn {
		if i := slices.IndexFunc(list, func(r Rule) bool { return content.Matches(r.Tool, tool) }); i >= 0 {
			all = append(all, GroundOf(ByFlag, list[i]))
		}
	}
	return all
}

// GroundsOfHooks lists the hooks of a point.
func GroundsOfHooks(hooks []Registration, point string) (all []Ground) {
	for _, h := range hooks {
		if slices.Contains(h.Points, point) {
			all = append(all, Ground{By: ByHook, Name: h.Name})
		}
	}
	return all
}

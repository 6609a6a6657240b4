package events

import (
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
)

func TestInvalidRulesAreRefused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]RouteRule{
		"no tool":           {Route: content.Background},
		"no such route":     {Tool: "*", Route: "sideways"},
		"no time":           {Tool: "*", Route: content.DetachSoon},
		"a time, no detach": {Tool: "*", DetachAfter: time.Second},
		"a negative time":   {Tool: "*", Route: content.DetachSoon, DetachAfter: -1},
	} {
		if r.Check() == nil {
			t.Errorf("route, %s: no error", name)
		}
	}
	for name, r := range map[string]Rule{"no tool": {Action: RuleAsk}, "no action": {Tool: "*"}, "no such action": {Tool: "*", Action: "perhaps"}} {
		if r.Check() == nil {
			t.Errorf("rule, %s: no error", name)
		}
	}
	if err := (RouteRule{Tool: "*", Route: content.DetachSoon, DetachAfter: 1}).Check(); err != nil {
		t.Error(err)
	}
	if err := (Rule{Tool: "*", Action: RuleGuard}).Check(); err != nil {
		t.Error(err)
	}
}

func TestTheFirstRuleOfAListAndTheStrictestListCount(t *testing.T) {
	t.Parallel()
	allow, ask, deny := RuleAllow, RuleAsk, RuleDeny
	lists := func(all ...[]Rule) Policy { return Policy{Rules: all} }
	for name, c := range map[string]struct {
		policy  Policy
		queue   string
		effects content.Effects
		want    Action
	}{
		"no policy":                       {want: allow},
		"an empty list guards":            {policy: lists(nil), want: ask},
		"what only reads":                 {policy: lists(nil), effects: content.ReadOnly, want: allow},
		"the first match":                 {policy: lists([]Rule{{Tool: "s*", Action: ask}, {Tool: "sh", Action: deny}}), want: ask},
		"the strictest list":              {policy: lists([]Rule{{Tool: "*", Action: deny}}, []Rule{{Tool: "*", Action: allow}}), want: deny},
		"an ask beats an allow":           {policy: lists([]Rule{{Tool: "*", Action: ask}}, []Rule{{Tool: "*", Action: allow}}), want: ask},
		"an action of a later release":    {policy: lists([]Rule{{Tool: "*", Action: "perhaps"}}), want: deny},
		"another queue":                   {policy: lists([]Rule{{Tool: "*", Action: deny, Queue: "gpu"}, {Tool: "*", Action: allow}}), queue: "cpu", want: allow},
		"that queue":                      {policy: lists([]Rule{{Tool: "*", Action: deny, Queue: "g*"}, {Tool: "*", Action: allow}}), queue: "gpu", want: deny},
		"an unknown queue is not allowed": {policy: lists([]Rule{{Tool: "*", Action: allow, Queue: "*"}}), want: ask},
		"an unknown queue may be denied":  {policy: lists([]Rule{{Tool: "*", Action: deny, Queue: "gpu"}, {Tool: "*", Action: allow}}), want: deny},
	} {
		if got, _ := c.policy.Ruling("sh", c.queue, c.effects); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

package events

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Rule decides about calls of the tools that match a pattern. The first matching rule
// of a list counts. An implicit last rule is {*, guard}. All lists that apply to a call count: a
// denial by any list wins, then a question by any.
type Rule struct {
	Tool   string `msgpack:"t" json:"tool"` // name pattern, see content.Matches
	Action Action `msgpack:"a" json:"action"`
	Queue  string `msgpack:"q,omitempty" json:"queue,omitempty"` // pattern of the queue that runs the call; empty: any; only in a policy
}

// Action is the decision of a rule. An unknown action denies.
type Action string

// The actions of rules.
const (
	RuleAllow Action = "allow" // run the call
	RuleAsk   Action = "ask"   // ask a person
	RuleDeny  Action = "deny"  // do not run the call
	RuleGuard Action = "guard" // run calls of read-only tools, ask a person about others
)

// maxPattern bounds a name pattern, in bytes.
const maxPattern = 256

// CheckPattern returns an error for a pattern that names no tool, or is too long.
func CheckPattern(p string) error {
	if p != "" && len(p) <= maxPattern {
		return nil
	}
	const shown = 64
	return fmt.Errorf("tool %q: use a name of 1 to %d bytes, where * matches any characters", content.Clip(p, shown), maxPattern)
}

// Check returns an error for a rule without a tool, or with an unknown action.
func (r Rule) Check() error {
	if err := CheckPattern(r.Tool); err != nil {
		return err
	}
	if !slices.Contains([]Action{RuleAllow, RuleAsk, RuleDeny, RuleGuard}, r.Action) {
		return fmt.Errorf("rule for %s: action %q: use allow, ask, deny or guard", r.Tool, r.Action)
	}
	return nil
}

// Ruling returns the decision of the first rule that matches a call, and the rule: allow, ask or
// deny. Guard becomes allow or ask, depending on the effects. The queue is empty if it is not known
// yet; then rules about queues count only if they ask or deny.
func Ruling(rules []Rule, tool, queue string, effects content.Effects) (Action, Rule) {
	rule := Rule{Tool: "*", Action: RuleGuard}
	for _, r := range rules {
		here := r.Queue == "" || content.Matches(r.Queue, queue)
		if queue == "" && r.Queue != "" {
			here = r.Action == RuleAsk || r.Action == RuleDeny
		}
		if here && content.Matches(r.Tool, tool) {
			rule = r
			break
		}
	}
	switch {
	case rule.Action == RuleGuard && effects == content.ReadOnly:
		return RuleAllow, rule
	case rule.Action == RuleGuard:
		return RuleAsk, rule
	case rule.Action == RuleAllow, rule.Action == RuleAsk:
		return rule.Action, rule
	}
	return RuleDeny, rule
}

// RouteRule sets the route of the tools that match a pattern, instead of the route that the tool
// declares. The first matching rule of a session counts.
type RouteRule struct {
	Tool        string        `msgpack:"t" json:"tool"` // name pattern, see content.Matches
	Route       content.Route `msgpack:"r,omitempty" json:"route,omitempty"`
	DetachAfter time.Duration `msgpack:"da,omitempty" json:"detach_after_ns,omitempty"` // of the route DetachSoon
}

// Check returns an error for a rule without a tool, with an unknown route, or with a
// detach time that does not fit the route.
func (r RouteRule) Check() error {
	if err := CheckPattern(r.Tool); err != nil {
		return err
	}
	detach := r.Route == content.DetachSoon
	switch {
	case !detach && r.Route != content.Foreground && r.Route != content.Background:
		return fmt.Errorf("route for %s: %q: use foreground, background or detach", r.Tool, r.Route)
	case detach != (r.DetachAfter > 0) || r.DetachAfter < 0:
		return fmt.Errorf("route for %s: detach after %v: use a positive time, with the route detach only", r.Tool, r.DetachAfter)
	}
	return nil
}

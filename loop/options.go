package loop

import (
	"cmp"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Rules judge calls by the names of their tools: those of the session, and beside them
// those of the calls' turn. The strictest verdict counts.
type Rules struct {
	Session []events.Rule
	Turn    [][]events.Rule
}

// RulesFor returns the rules for a call: those of its turn hold for it after the turn is
// over, too.
func (s *State) RulesFor(c Call) Rules { return Rules{Session: s.Config.Rules, Turn: c.Rules} }

// rules are those for the calls that the open turn asks for now.
func (s *State) rules() Rules { return Rules{Session: s.Config.Rules, Turn: s.turnOptions().Rules} }

// routes are those for the calls that the open turn asks for now. The first that fits
// counts, so those of the turn come before those of the session.
func (s *State) routes() []events.RouteRule {
	return slices.Concat(s.turnOptions().Routes, s.Config.Routes)
}

func (s *State) turnOptions() events.TurnOptions {
	if s.Turn == nil || s.Turn.Options == nil {
		return events.TurnOptions{}
	}
	return *s.Turn.Options
}

// Bounds of one submission's options, and of one grant.
const (
	maxRules   = 100
	maxPattern = 256
	maxShown   = 64 // of one that is too long
)

// checkOptions refuses options that cannot mean anything.
func checkOptions(o *events.TurnOptions) error {
	if o == nil {
		return nil
	}
	n := len(o.Routes)
	for _, list := range o.Rules {
		n += max(len(list), 1)
		for _, r := range list {
			switch {
			case !validPattern(r.Tool):
				return refusePattern(r.Tool)
			case !slices.Contains([]events.Action{events.RuleAllow, events.RuleAsk, events.RuleDeny, events.RuleGuard}, r.Action):
				return refuse(ReasonInvalidInput, "rule for %s: action %q: use allow, ask, deny or guard", r.Tool, r.Action)
			}
		}
	}
	if n > maxRules {
		return refuse(ReasonTooLarge, "%d rules and routes for one turn, at most %d", n, maxRules)
	}
	for _, r := range o.Routes {
		detach := r.Route == content.DetachSoon
		switch {
		case !validPattern(r.Tool):
			return refusePattern(r.Tool)
		case !detach && r.Route != content.Foreground && r.Route != content.Background:
			return refuse(ReasonInvalidInput, "route for %s: %q: use foreground, background or detach", r.Tool, r.Route)
		case detach != (r.DetachAfter > 0) || r.DetachAfter < 0:
			return refuse(ReasonInvalidInput, "route for %s: detach after %v: use a positive time, with the route detach only", r.Tool, r.DetachAfter)
		}
	}
	return nil
}

func validPattern(p string) bool { return p != "" && len(p) <= maxPattern }

func refusePattern(pattern string) error {
	return refuse(ReasonInvalidInput, "tool %q: use a name of 1 to %d bytes, in which * stands for any characters", clip(pattern, maxShown), maxPattern)
}

// narrowed is what the options of two submissions come to in one turn: all rules, the
// tighter limits, and of the routes the later first.
func narrowed(a, b *events.TurnOptions) *events.TurnOptions {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := events.TurnOptions{
		Limits: cmp.Or(a.Limits, b.Limits), Sequential: a.Sequential || b.Sequential,
		Rules: slices.Concat(a.Rules, b.Rules), Routes: slices.Concat(b.Routes, a.Routes),
	}
	if a.Limits != nil && b.Limits != nil {
		l := Tighter(*a.Limits, *b.Limits)
		out.Limits = &l
	}
	return &out
}

// within bounds options by the session's limits of a turn, so that what is recorded is
// what holds.
func (d *decision) within(o *events.TurnOptions) *events.TurnOptions {
	if o == nil || o.Limits == nil {
		return o
	}
	out := *o
	l := Tighter(*o.Limits, d.Config.Limits)
	out.Limits = &l
	return &out
}

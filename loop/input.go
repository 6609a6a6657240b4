package loop

import (
	"cmp"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Bounds of commands and of what the session keeps of them.
const (
	maxInputItems = 1000 // of one submission
	maxQueued     = 256  // submissions in the queue
	maxRules      = 100  // of one submission's options, and of one grant
	maxPattern    = 256  // bytes
	maxShown      = 64   // bytes of a pattern that is too long
	maxWarnings   = 8    // of one reply
	maxWarning    = 500  // bytes
	maxProblem    = 2000 // bytes of why an answer violates the schema
	maxOutput     = 4000 // characters of a verifier's output, from its end
)

// clip returns the beginning of s, at most n bytes of it.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return content.Cut(s, n) + "…"
}

// lastRunes returns the end of s, at most n characters of it.
func lastRunes(s string, n int) string {
	all := []rune(s)
	return string(all[max(0, len(all)-n):])
}

// checkInput refuses items that a host may not submit.
func checkInput(items []content.Item) error {
	if len(items) == 0 {
		return refuse(ReasonEmptyInput, "there is no item in the input")
	}
	if len(items) > maxInputItems {
		return refuse(ReasonTooLarge, "%d items in one input, at most %d", len(items), maxInputItems)
	}
	for i, it := range items {
		switch it.Kind {
		case content.System, content.Developer, content.User, content.Context:
		default:
			return refuse(ReasonBadItem, "item %d is of kind %q; input is system, developer, user or context", i+1, it.Kind)
		}
		if len(it.Parts) == 0 {
			return refuse(ReasonBadItem, "item %d has no part", i+1)
		}
		if slices.ContainsFunc(it.Parts, func(p content.Part) bool { return p.Call != nil || p.Result != nil }) {
			return refuse(ReasonBadItem, "item %d holds a tool call or a result", i+1)
		}
	}
	return nil
}

// stripped returns the items without what only the core sets.
func stripped(items []content.Item) []content.Item {
	out := slices.Clone(items)
	for i := range out {
		out[i].Metadata = out[i].Metadata.WithoutReserved()
		out[i].ID, out[i].CreatedAt, out[i].Usage, out[i].FinishReason = "", 0, nil, ""
	}
	return out
}

// joins reports whether queued input is merged now: at a round boundary only what steers,
// at the start of a turn everything but tasks, which get turns of their own.
func joins(q events.InputQueued, steering bool) bool {
	return q.Task == nil && (!steering || q.OnBusy == events.Steer)
}

// Rules judge calls by tool name. The strictest verdict of session and turn counts.
type Rules struct {
	Session []events.Rule
	Turn    [][]events.Rule
}

// RulesFor returns the rules for a call. Those of its turn outlive the turn.
func (s *State) RulesFor(c Call) Rules { return Rules{Session: s.Config.Rules, Turn: c.Rules} }

// rules are those for calls that the open turn makes now.
func (s *State) rules() Rules { return Rules{Session: s.Config.Rules, Turn: s.turnOptions().Rules} }

// checkOptions refuses options without a meaning.
func checkOptions(o *events.TurnOptions) error {
	if o == nil {
		return nil
	}
	n := len(o.Routes)
	for _, list := range o.Rules {
		n += max(len(list), 1)
		for _, r := range list {
			if err := checkPattern(r.Tool); err != nil {
				return err
			}
			if !slices.Contains([]events.Action{events.RuleAllow, events.RuleAsk, events.RuleDeny, events.RuleGuard}, r.Action) {
				return refuse(ReasonInvalidInput, "rule for %s: action %q: use allow, ask, deny or guard", r.Tool, r.Action)
			}
		}
	}
	if n > maxRules {
		return refuse(ReasonTooLarge, "%d rules and routes for one turn, at most %d", n, maxRules)
	}
	for _, r := range o.Routes {
		if err := checkPattern(r.Tool); err != nil {
			return err
		}
		detach := r.Route == content.DetachSoon
		switch {
		case !detach && r.Route != content.Foreground && r.Route != content.Background:
			return refuse(ReasonInvalidInput, "route for %s: %q: use foreground, background or detach", r.Tool, r.Route)
		case detach != (r.DetachAfter > 0) || r.DetachAfter < 0:
			return refuse(ReasonInvalidInput, "route for %s: detach after %v: use a positive time, with the route detach only", r.Tool, r.DetachAfter)
		}
	}
	return nil
}

func checkPattern(p string) error {
	if p != "" && len(p) <= maxPattern {
		return nil
	}
	return refuse(ReasonInvalidInput, "tool %q: use a name of 1 to %d bytes, in which * stands for any characters", clip(p, maxShown), maxPattern)
}

// narrowed is what the options of two submissions amount to in one turn: all rules, the
// tighter limits, and the later routes first.
func narrowed(a, b *events.TurnOptions) *events.TurnOptions {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := events.TurnOptions{
		Limits: cmp.Or(a.Limits, b.Limits), Sequential: a.Sequential || b.Sequential,
		Rules: slices.Concat(a.Rules, b.Rules), Routes: slices.Concat(b.Routes, a.Routes),
	}
	if a.Limits != nil && b.Limits != nil {
		l := a.Limits.And(*b.Limits)
		out.Limits = &l
	}
	return &out
}

// within bounds options by the session's limits, so the journal records what holds.
func (d *decision) within(o *events.TurnOptions) *events.TurnOptions {
	if o == nil || o.Limits == nil {
		return o
	}
	out, l := *o, o.Limits.And(d.Config.Limits)
	out.Limits = &l
	return &out
}

package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Bounds of what the session keeps of commands.
const (
	maxQueued   = 256  // submissions in the queue
	maxWarnings = 8    // of one reply
	maxWarning  = 500  // bytes
	maxProblem  = 2000 // bytes of why an answer violates the schema
	maxOutput   = 4000 // characters of a verifier's output, from its end
)

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

// Rules judge calls by tool name. The strictest verdict of policy, session and turn counts.
type Rules struct {
	Policy  events.Policy
	Session []events.Rule
	Turn    [][]events.Rule
}

// RulesFor returns the rules for a call. Those of its turn outlive the turn.
func (s *State) RulesFor(c Call) Rules {
	return Rules{Policy: s.Policy, Session: s.Config.Rules, Turn: c.Rules}
}

// rules are those for calls that the open turn makes now.
func (s *State) rules() Rules {
	return Rules{Policy: s.Policy, Session: s.Config.Rules, Turn: s.turnOptions().Rules}
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

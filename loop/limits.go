package loop

import (
	"cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Bounds on what the session keeps from commands.
const (
	maxQueued     = 256       // submissions in the queue
	maxWaiting    = 64 << 20  // bytes in the queue, after the first input
	maxTranscript = 256 << 20 // bytes of the transcript
	maxQuestions  = 32        // from a worker about one call
	maxWarnings   = 8         // from one reply
	maxWarning    = 500       // bytes
	maxProblem    = 2000      // bytes of why an answer violates the schema
	maxOutput     = 4000      // characters of a verifier's output, from its end
)

// roomFor refuses input that the session has no room for, because a node holds a whole session in memory.
func (d *decision) roomFor(items []content.Item) error {
	waiting := int64(0)
	for _, q := range d.Queue {
		waiting += content.Weight(q.Items...)
	}
	more := content.Weight(items...)
	switch {
	case len(d.Queue) >= maxQueued:
		return commands.Refuse(commands.ReasonQueueFull, "%d inputs wait already; send more once the session has come to them", len(d.Queue))
	case len(d.Queue) > 0 && waiting+more > maxWaiting:
		return commands.Refuse(commands.ReasonQueueFull, "input of %d MiB waits already; send more once the session has come to it", waiting>>20)
	case d.Bytes+more > maxTranscript:
		return commands.Refuse(commands.ReasonTooLarge, "the transcript has %d MiB and the input %d, together at most %d: compact it or start another session",
			d.Bytes>>20, more>>20, maxTranscript>>20)
	}
	return nil
}

// limited ends the turn if a limit of these kinds is exceeded.
func (d *decision) limited(kinds ...events.LimitKind) bool {
	l := d.over(kinds...)
	if l == nil {
		return false
	}
	d.emit(*l)
	d.finish(ending{reason: content.Limit})
	return true
}

// consumed returns first, then the limits on what a turn consumes while it runs.
func consumed(first ...events.LimitKind) []events.LimitKind {
	all := append(make([]events.LimitKind, 0, 8), first...) // on the caller's stack
	return append(all, events.LimitInputTokens, events.LimitOutputTokens, events.LimitTotalTokens, events.LimitCost, events.LimitWallClock)
}

// scope is a set of limits, of the turn or the session, and what counts against it. Zero is unlimited; a negative
// limit allows nothing.
type scope struct {
	name   string
	limits events.Limits
	used   events.Counters
}

// scopes returns the scopes that have a limit.
func (s *State) scopes() (all []scope) {
	var worked content.Duration
	add := func(name string, l events.Limits, used events.Counters) {
		if l != (events.Limits{}) {
			used.Worked += worked
			all = append(all, scope{name, l, used})
		}
	}
	if s.Turn != nil {
		worked = s.worked()
		add("turn", *cmp.Or(s.turnOptions().Limits, &s.Config.Limits), s.Turn.Used)
	}
	add("session", s.Config.SessionLimits, s.Used)
	return all
}

// over returns the first of the limits that is exceeded, or would be by one round or request.
func (d *decision) over(kinds ...events.LimitKind) *events.LimitReached {
	for _, sc := range d.scopes() {
		if l, over := sc.used.Over(sc.limits, kinds...); over {
			l.Scope = sc.name
			return &l
		}
	}
	return nil
}

// Remaining returns what the open turn may still use under its own limits and the session's. It bounds work on
// behalf of the turn. It leaves out rounds and time.
func Remaining(s *State) events.Limits {
	var left events.Limits
	for _, sc := range s.scopes() {
		own := sc.used.Left(sc.limits)
		own.MaxRounds, own.WallClock = 0, 0
		left = left.And(own)
	}
	return left
}

// wallClock is when the turn reaches its time limit; zero while it waits, is being cancelled or has no limit.
func (s *State) wallClock() content.Time {
	t := s.Turn
	if t.Since != 0 || t.Cancel != nil {
		return 0
	}
	var first content.Time
	for _, sc := range s.scopes() {
		limit := sc.limits.WallClock
		if limit == 0 {
			continue
		}
		if at := s.At.Add(max(limit, 0)-sc.used.Worked) + 1; first == 0 || at < first {
			first = at
		}
	}
	return first
}

// worked is how long the open turn has run, without its waits.
func (s *State) worked() content.Duration {
	t := s.Turn
	waited := t.Waited
	if t.Since != 0 {
		waited += s.At.Sub(t.Since)
	}
	return s.At.Sub(t.Started) - waited
}

// within bounds options by the session's limits, so the journal records the limits that apply.
func (d *decision) within(o *events.TurnOptions) *events.TurnOptions {
	if o == nil || o.Limits == nil {
		return o
	}
	out, l := *o, o.Limits.And(d.Config.Limits)
	out.Limits = &l
	return &out
}

package loop

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// LimitText is what people and models are told of a limit.
func LimitText(l events.LimitReached) string {
	switch l.Kind {
	case events.LimitRounds:
		return fmt.Sprintf("max turns reached (%d)", l.Limit)
	case events.LimitWallClock:
		return fmt.Sprintf("%s limit exceeded: %s > %s", l.Kind, content.Duration(l.Used), content.Duration(l.Limit))
	default:
		return fmt.Sprintf("%s limit exceeded: %d > %d", l.Kind, l.Used, l.Limit)
	}
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

// consumed lists the limits on what a turn consumes as it goes, after those to check first.
func consumed(first ...events.LimitKind) []events.LimitKind {
	return append(first,
		events.LimitInputTokens, events.LimitOutputTokens, events.LimitTotalTokens, events.LimitCost, events.LimitWallClock)
}

// scope is a set of limits, the turn's or the session's, and what counts against it. Zero
// is unlimited, negative allows nothing.
type scope struct {
	name   string
	limits events.Limits
	used   Counters
}

func (s *State) scopes() []scope {
	session := scope{"session", s.Config.SessionLimits, s.Used}
	if s.Turn == nil {
		return []scope{session}
	}
	turn := scope{"turn", s.Config.Limits, s.Turn.Used}
	if l := s.turnOptions().Limits; l != nil {
		turn.limits = *l
	}
	worked := s.worked()
	turn.used.Worked += worked
	session.used.Worked += worked
	return []scope{turn, session}
}

// bound returns the limit of a kind and what counts against it: for rounds and requests,
// one more than were started.
func (sc scope) bound(k events.LimitKind) (limit, used int64) {
	l, u := sc.limits, sc.used
	switch k {
	case events.LimitRounds:
		return l.MaxRounds, u.Rounds + 1
	case events.LimitRequests:
		return l.Requests, u.Requests + 1
	case events.LimitInputTokens:
		return l.InputTokens, u.Usage.InputTokens
	case events.LimitOutputTokens:
		return l.OutputTokens, u.Usage.OutputTokens
	case events.LimitTotalTokens:
		return l.TotalTokens, u.Usage.TotalTokens()
	case events.LimitToolCalls:
		return l.ToolCalls, u.ToolCalls
	case events.LimitCost:
		return l.CostMicros, u.Usage.CostMicros
	case events.LimitWallClock:
	}
	return int64(l.WallClock), int64(u.Worked)
}

// over returns the first limit of these kinds that is exceeded.
func (d *decision) over(kinds ...events.LimitKind) *events.LimitReached {
	for _, sc := range d.scopes() {
		for _, k := range kinds {
			limit, used := sc.bound(k)
			if limit == 0 || used <= max(limit, 0) {
				continue
			}
			if k == events.LimitRounds {
				used-- // a round that does not start
			}
			return &events.LimitReached{Kind: k, Limit: max(limit, 0), Used: used, Scope: sc.name}
		}
	}
	return nil
}

// Remaining is what the open turn may still use, by its own limits and by the session's:
// bounds for those who work on its behalf. Its rounds are its own, and its timer keeps its
// time.
func Remaining(s *State) events.Limits {
	var left events.Limits
	for _, sc := range s.scopes() {
		l, u := sc.limits, sc.used
		left = Tighter(left, events.Limits{
			Requests:     rest(l.Requests, u.Requests),
			InputTokens:  rest(l.InputTokens, u.Usage.InputTokens),
			OutputTokens: rest(l.OutputTokens, u.Usage.OutputTokens),
			TotalTokens:  rest(l.TotalTokens, u.Usage.TotalTokens()),
			ToolCalls:    rest(l.ToolCalls, u.ToolCalls),
			CostMicros:   rest(l.CostMicros, u.Usage.CostMicros),
		})
	}
	return left
}

// rest is what is left of a limit, as a limit.
func rest(limit, used int64) int64 {
	if limit == 0 {
		return 0
	}
	if left := max(limit, 0) - used; left > 0 {
		return left
	}
	return -1
}

// Tighter returns the limits that satisfy both a and b.
func Tighter(a, b events.Limits) events.Limits {
	return events.Limits{
		MaxRounds:    tighter(a.MaxRounds, b.MaxRounds),
		Requests:     tighter(a.Requests, b.Requests),
		InputTokens:  tighter(a.InputTokens, b.InputTokens),
		OutputTokens: tighter(a.OutputTokens, b.OutputTokens),
		TotalTokens:  tighter(a.TotalTokens, b.TotalTokens),
		ToolCalls:    tighter(a.ToolCalls, b.ToolCalls),
		CostMicros:   tighter(a.CostMicros, b.CostMicros),
		WallClock:    tighter(a.WallClock, b.WallClock),
	}
}

func tighter[T int64 | content.Duration](a, b T) T {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// wallClock is the first instant at which the turn has worked for too long if it goes on
// working; zero while it waits, is being cancelled or has no limit.
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

// worked is how long the open turn has been going on, less its waits.
func (s *State) worked() content.Duration {
	t := s.Turn
	waited := t.Waited
	if t.Since != 0 {
		waited += s.At.Sub(t.Since)
	}
	return s.At.Sub(t.Started) - waited
}

package loop

import (
	"fmt"
	"slices"

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

// bound is a limit and what counts against it.
type bound struct {
	kind  events.LimitKind
	limit *int64
	used  int64
}

func bounds(l *events.Limits, u Counters) []bound {
	return []bound{
		{events.LimitRounds, &l.MaxRounds, u.Rounds},
		{events.LimitRequests, &l.Requests, u.Requests},
		{events.LimitInputTokens, &l.InputTokens, u.Usage.InputTokens},
		{events.LimitOutputTokens, &l.OutputTokens, u.Usage.OutputTokens},
		{events.LimitTotalTokens, &l.TotalTokens, u.Usage.TotalTokens()},
		{events.LimitToolCalls, &l.ToolCalls, u.ToolCalls},
		{events.LimitCost, &l.CostMicros, u.Usage.CostMicros},
		{events.LimitWallClock, (*int64)(&l.WallClock), int64(u.Worked)},
	}
}

// over returns the first of the limits that is exceeded, or would be by one round or request.
func (d *decision) over(kinds ...events.LimitKind) *events.LimitReached {
	for _, sc := range d.scopes() {
		all := bounds(&sc.limits, sc.used)
		for _, k := range kinds {
			b := all[slices.IndexFunc(all, func(b bound) bool { return b.kind == k })]
			limit, next := max(*b.limit, 0), b.used
			if k == events.LimitRounds || k == events.LimitRequests {
				next++
			}
			if *b.limit == 0 || next <= limit {
				continue
			}
			if k == events.LimitRequests {
				b.used = next
			}
			return &events.LimitReached{Kind: k, Limit: limit, Used: b.used, Scope: sc.name}
		}
	}
	return nil
}

// Remaining is what the open turn may still use, by its own limits and the session's: bounds
// for work on its behalf. Rounds and time are not passed on.
func Remaining(s *State) events.Limits {
	var left events.Limits
	for _, sc := range s.scopes() {
		l := sc.limits
		for _, b := range bounds(&l, sc.used) {
			if *b.limit != 0 {
				if *b.limit = max(*b.limit, 0) - b.used; *b.limit <= 0 {
					*b.limit = -1
				}
			}
		}
		l.MaxRounds, l.WallClock = 0, 0
		left = Tighter(left, l)
	}
	return left
}

// Tighter returns the limits that satisfy both a and b.
func Tighter(a, b events.Limits) events.Limits {
	others := bounds(&b, Counters{})
	for i, x := range bounds(&a, Counters{}) {
		if y := *others[i].limit; *x.limit == 0 || y != 0 && y < *x.limit {
			*x.limit = y
		}
	}
	return a
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

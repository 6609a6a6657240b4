package loop

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// LimitText is what people and models are told of a limit.
func LimitText(l events.LimitReached) string {
	if l.Kind == events.LimitRounds {
		return fmt.Sprintf("max turns reached (%d)", l.Limit)
	}
	if l.Kind == events.LimitWallClock {
		return fmt.Sprintf("%s limit exceeded: %s > %s", l.Kind, content.Duration(l.Used), content.Duration(l.Limit))
	}
	return fmt.Sprintf("%s limit exceeded: %d > %d", l.Kind, l.Used, l.Limit)
}

// limited ends the turn if a limit was found to be exceeded.
func (d *decision) limited(l *events.LimitReached) bool {
	if l == nil {
		return false
	}
	d.emit(*l)
	d.finish(ending{reason: content.Limit})
	return true
}

// bound is one limit beside what is used of it.
type bound struct {
	kind  events.LimitKind
	limit int64
	used  int64
}

// exceeded returns the first bound that is exceeded. Zero is unlimited, negative
// allows nothing.
func exceeded(scope string, bounds ...bound) *events.LimitReached {
	for _, b := range bounds {
		limit := max(b.limit, 0)
		if b.limit != 0 && b.used > limit {
			return &events.LimitReached{Kind: b.kind, Limit: limit, Used: b.used, Scope: scope}
		}
	}
	return nil
}

// scopes are the turn's limits and the session's, each with what counts on it.
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
	turn := s.Config.Limits
	if o := s.Turn.Options; o != nil && o.Limits != nil {
		turn = *o.Limits
	}
	return []scope{{"turn", turn, s.Turn.Used}, session}
}

func (d *decision) firstOver(bounds func(scope) []bound) *events.LimitReached {
	for _, sc := range d.scopes() {
		if l := exceeded(sc.name, bounds(sc)...); l != nil {
			return l
		}
	}
	return nil
}

// overAtTop checks what a further round would use. The rounds come first: of N
// allowed ones the last one's tools do run.
func (d *decision) overAtTop() *events.LimitReached {
	for _, sc := range d.scopes() {
		if n := sc.limits.MaxRounds; n != 0 && sc.used.Rounds >= max(n, 0) {
			return &events.LimitReached{Kind: events.LimitRounds, Limit: max(n, 0), Used: sc.used.Rounds, Scope: sc.name}
		}
	}
	return d.firstOver(func(sc scope) []bound {
		return append([]bound{{events.LimitRequests, sc.limits.Requests, sc.used.Requests + 1}}, d.consumed(sc)...)
	})
}

// overRequests checks whether another attempt at a model call may be started.
func (d *decision) overRequests() *events.LimitReached {
	return d.firstOver(func(sc scope) []bound {
		return []bound{{events.LimitRequests, sc.limits.Requests, sc.used.Requests + 1}}
	})
}

// overAfterReply checks what the reply used.
func (d *decision) overAfterReply() *events.LimitReached { return d.firstOver(d.consumed) }

// overTools checks the calls of the reply, before any of them is judged or run.
func (d *decision) overTools() *events.LimitReached {
	return d.firstOver(func(sc scope) []bound {
		return []bound{{events.LimitToolCalls, sc.limits.ToolCalls, sc.used.ToolCalls}}
	})
}

func (d *decision) consumed(sc scope) []bound {
	u := sc.used.Usage
	return []bound{
		{events.LimitInputTokens, sc.limits.InputTokens, u.InputTokens},
		{events.LimitOutputTokens, sc.limits.OutputTokens, u.OutputTokens},
		{events.LimitTotalTokens, sc.limits.TotalTokens, u.TotalTokens()},
		{events.LimitCost, sc.limits.CostMicros, u.CostMicros},
		d.spent(sc),
	}
}

// overTime checks the wall clock alone, for its timer.
func (d *decision) overTime() *events.LimitReached {
	return d.firstOver(func(sc scope) []bound { return []bound{d.spent(sc)} })
}

func (d *decision) spent(sc scope) bound {
	return bound{events.LimitWallClock, int64(sc.limits.WallClock), int64(sc.used.Worked + d.worked())}
}

// Remaining is what the open turn may still use, by its own limits and by the
// session's: bounds for whoever works on its behalf. Its rounds are its own, and its
// time is kept by its timer.
func Remaining(s *State) events.Limits {
	var left events.Limits
	for _, sc := range s.scopes() {
		u := sc.used.Usage
		left = Tighter(left, events.Limits{
			Requests:     rest(sc.limits.Requests, sc.used.Requests),
			InputTokens:  rest(sc.limits.InputTokens, u.InputTokens),
			OutputTokens: rest(sc.limits.OutputTokens, u.OutputTokens),
			TotalTokens:  rest(sc.limits.TotalTokens, u.TotalTokens()),
			ToolCalls:    rest(sc.limits.ToolCalls, sc.used.ToolCalls),
			CostMicros:   rest(sc.limits.CostMicros, u.CostMicros),
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

// Tighter returns the limits that hold both a and b.
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

// wallClock is the first instant at which the turn has worked for too long if it
// goes on working; zero while it waits, is being cancelled or has no limit.
func (s *State) wallClock() content.Time {
	t := s.Turn
	if t.Since != 0 || t.Cancel != nil {
		return 0
	}
	first := content.Time(0)
	for _, sc := range s.scopes() {
		limit := sc.limits.WallClock
		if limit == 0 {
			continue
		}
		at := t.Started.Add(t.Waited+max(limit, 0)-sc.used.Worked) + 1
		if first == 0 || at < first {
			first = at
		}
	}
	return first
}

// worked is how long the turn has been going on, less its waits.
func (s *State) worked() content.Duration {
	t := s.Turn
	waited := t.Waited
	if t.Since != 0 {
		waited += s.At.Sub(t.Since)
	}
	return s.At.Sub(t.Started) - waited
}

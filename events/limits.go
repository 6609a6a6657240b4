package events

import (
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Limits of a turn or a session. Zero is unlimited, negative allows nothing.
type Limits struct {
	MaxRounds    int64         `msgpack:"mr,omitempty" json:"max_rounds,omitempty"`
	Requests     int64         `msgpack:"rq,omitempty" json:"requests,omitempty"`
	InputTokens  int64         `msgpack:"it,omitempty" json:"input_tokens,omitempty"`
	OutputTokens int64         `msgpack:"ot,omitempty" json:"output_tokens,omitempty"`
	TotalTokens  int64         `msgpack:"tt,omitempty" json:"total_tokens,omitempty"`
	ToolCalls    int64         `msgpack:"tc,omitempty" json:"tool_calls,omitempty"`
	CostMicros   int64         `msgpack:"co,omitempty" json:"cost_micros,omitempty"`
	WallClock    time.Duration `msgpack:"wc,omitempty" json:"wall_clock_ns,omitempty"`
}

// LimitKind names a limit.
type LimitKind string

// The kinds of limits.
const (
	LimitRounds       LimitKind = "max turns"
	LimitRequests     LimitKind = "request"
	LimitInputTokens  LimitKind = "input token"
	LimitOutputTokens LimitKind = "output token"
	LimitTotalTokens  LimitKind = "total token"
	LimitToolCalls    LimitKind = "tool call"
	LimitCost         LimitKind = "cost"
	LimitWallClock    LimitKind = "wall clock"
)

// LimitKinds returns every kind of limit.
func LimitKinds() []LimitKind {
	return []LimitKind{
		LimitRounds, LimitRequests, LimitInputTokens, LimitOutputTokens, LimitTotalTokens, LimitToolCalls, LimitCost, LimitWallClock,
	}
}

// Of returns the limit of a kind.
func (l *Limits) Of(k LimitKind) *int64 {
	switch k {
	case LimitRounds:
		return &l.MaxRounds
	case LimitRequests:
		return &l.Requests
	case LimitInputTokens:
		return &l.InputTokens
	case LimitOutputTokens:
		return &l.OutputTokens
	case LimitTotalTokens:
		return &l.TotalTokens
	case LimitToolCalls:
		return &l.ToolCalls
	case LimitCost:
		return &l.CostMicros
	case LimitWallClock:
		return (*int64)(&l.WallClock)
	}
	panic("events: no limit " + k)
}

// And returns the limits that satisfy both l and m.
func (l Limits) And(m Limits) Limits {
	for _, k := range LimitKinds() {
		if a, b := l.Of(k), *m.Of(k); *a == 0 || b != 0 && b < *a {
			*a = b
		}
	}
	return l
}

// Counters count what limits bound.
type Counters struct {
	Rounds    int64
	Requests  int64
	ToolCalls int64
	Worked    time.Duration // working time of finished turns
	Usage     content.Usage
}

// Add counts usage.
func (c *Counters) Add(u UsageUpdated) {
	c.Usage = c.Usage.Add(u.Usage)
	c.Requests += u.Requests
	c.ToolCalls += u.ToolCalls
}

// Spent returns each counter in the field of its limit.
func (c Counters) Spent() Limits {
	return Limits{
		MaxRounds: c.Rounds, Requests: c.Requests, ToolCalls: c.ToolCalls, WallClock: c.Worked,
		InputTokens: c.Usage.InputTokens, OutputTokens: c.Usage.OutputTokens,
		TotalTokens: c.Usage.TotalTokens(), CostMicros: c.Usage.CostMicros,
	}
}

// Over returns the first limit of the given kinds that is exceeded, or would be by one more round or
// request. Its scope is not set.
func (c Counters) Over(l Limits, kinds ...LimitKind) (reached LimitReached, over bool) {
	spent := c.Spent()
	for _, k := range kinds {
		set, used := *l.Of(k), *spent.Of(k)
		limit, next := max(set, 0), used
		if k == LimitRounds || k == LimitRequests {
			next++
		}
		if set == 0 || next <= limit {
			continue
		}
		if k == LimitRequests {
			used = next
		}
		return LimitReached{Kind: k, Limit: limit, Used: used}, true
	}
	return LimitReached{}, false
}

// Left returns what is left of the limits.
func (c Counters) Left(l Limits) Limits {
	spent := c.Spent()
	for _, k := range LimitKinds() {
		if left := l.Of(k); *left != 0 {
			if *left = max(*left, 0) - *spent.Of(k); *left <= 0 {
				*left = -1
			}
		}
	}
	return l
}

// LimitReached records which limit ended a turn.
type LimitReached struct {
	Kind  LimitKind `msgpack:"k" json:"limit_kind"`
	Limit int64     `msgpack:"l" json:"limit"`
	Used  int64     `msgpack:"u" json:"used"`
	Scope string    `msgpack:"s" json:"scope"` // turn or session
}

// Text describes the limit for people and models.
func (l LimitReached) Text() string {
	switch l.Kind {
	case LimitRounds:
		return fmt.Sprintf("max turns reached (%d)", l.Limit)
	case LimitWallClock:
		return fmt.Sprintf("%s limit exceeded: %s > %s", l.Kind, time.Duration(l.Used), time.Duration(l.Limit))
	default:
		return fmt.Sprintf("%s limit exceeded: %d > %d", l.Kind, l.Used, l.Limit)
	}
}

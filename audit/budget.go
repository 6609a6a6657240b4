package audit

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// budgetHeld: the limits in force at that time count, those of the turn and of the session.
// Rounds and attempts count when they start, calls when they are requested, tokens and cost
// when they are recorded.
func budgetHeld() rule {
	var b budget
	return func(f fact) {
		if b.reached != nil && starts(f.event) {
			f.fail("a %T after the %s limit was reached", f.event, b.reached.Kind)
		}
		switch ev := f.event.(type) {
		case events.RunStarted:
			b.config = ev.Config
		case events.ConfigChanged:
			b.config = ev.Config
		case events.TurnStarted:
			b.options, b.turn, b.reached = ev.Options, counted{}, nil
		case events.InputAccepted:
			if ev.Options != nil {
				b.options = ev.Options
			}
		case events.RoundStarted:
			b.overspent, b.overcalled = false, false
			b.round(f)
		case events.ModelCallStarted:
			b.count(func(c *counted) { c.requests++ })
			b.judge(f, "requests", counted.overRequests)
		case events.UsageUpdated:
			b.spend(f, ev)
		case events.ToolCallRequested:
			b.count(func(c *counted) { c.calls++ })
			b.overcalled = b.exceeds(counted.overCalls)
		case events.ApprovalRequired:
			b.tool(f, ev.Approval.CallID)
		case events.ToolDispatched:
			b.tool(f, ev.Call)
		case events.LimitReached:
			b.reach(f, ev)
		case events.TurnFinished:
			if b.reached != nil && ev.FinishReason != content.Limit {
				f.fail("%s finishes as %s after the %s limit was reached", ev.Turn, ev.FinishReason, b.reached.Kind)
			}
			b.reached = nil
		}
	}
}

func starts(ev any) bool {
	switch ev.(type) {
	case events.RoundStarted, events.ModelCallStarted, events.ToolDispatched, events.ApprovalRequired:
		return true
	}
	return false
}

// budget is the limits in force and what counts against them.
type budget struct {
	config        events.Config
	options       *events.TurnOptions
	turn, session counted
	overspent     bool // by the round's reply
	overcalled    bool
	reached       *events.LimitReached
}

type counted struct {
	rounds, requests, calls int64
	usage                   content.Usage
}

func (c *counted) spend(ev events.UsageUpdated) {
	c.usage = c.usage.Add(ev.Usage)
	c.requests += ev.Requests
	c.calls += ev.ToolCalls
}

func over(limit, used int64) bool { return limit != 0 && used > max(limit, 0) }

func (c counted) overRounds(l events.Limits) bool   { return over(l.MaxRounds, c.rounds) }
func (c counted) overRequests(l events.Limits) bool { return over(l.Requests, c.requests) }
func (c counted) overCalls(l events.Limits) bool    { return over(l.ToolCalls, c.calls) }

func (c counted) overSpent(l events.Limits) bool {
	u := c.usage
	return over(l.InputTokens, u.InputTokens) || over(l.OutputTokens, u.OutputTokens) ||
		over(l.TotalTokens, u.TotalTokens()) || over(l.CostMicros, u.CostMicros)
}

func (b *budget) count(add func(*counted)) {
	add(&b.turn)
	add(&b.session)
}

func (b *budget) turnLimits() events.Limits {
	if b.options != nil && b.options.Limits != nil {
		return *b.options.Limits
	}
	return b.config.Limits
}

func (b *budget) exceeds(over func(counted, events.Limits) bool) bool {
	return over(b.turn, b.turnLimits()) || over(b.session, b.config.SessionLimits)
}

func (b *budget) judge(f fact, what string, over func(counted, events.Limits) bool) {
	switch {
	case over(b.turn, b.turnLimits()):
		f.fail("a %T beyond the turn's limit of %s", f.event, what)
	case over(b.session, b.config.SessionLimits):
		f.fail("a %T beyond the session's limit of %s", f.event, what)
	}
}

func (b *budget) round(f fact) {
	b.count(func(c *counted) { c.rounds++ })
	b.judge(f, "rounds", counted.overRounds)
	b.judge(f, "tokens or cost", counted.overSpent)
}

func (b *budget) spend(f fact, ev events.UsageUpdated) {
	b.session.spend(ev)
	if f.ledger.turn != "" {
		b.turn.spend(ev)
	}
	if ev.Source == sourceModel {
		b.overspent = b.exceeds(counted.overSpent)
	}
}

// tool checks a call of the open round when it is gated or started for the first time. The
// limit may have changed since the reply; both must allow the call.
func (b *budget) tool(f fact, id content.CallID) {
	c, known := f.ledger.calls[id]
	if !known || c.attempt > 0 || c.waits {
		return
	}
	if b.overspent {
		b.judge(f, "tokens or cost", counted.overSpent)
	}
	if b.overcalled {
		b.judge(f, "tool calls", counted.overCalls)
	}
}

func (b *budget) reach(f fact, ev events.LimitReached) {
	if b.reached != nil {
		f.fail("the %s limit is reached in a turn that the %s limit ended", ev.Kind, b.reached.Kind)
	}
	if ev.Used < ev.Limit || ev.Used == ev.Limit && ev.Kind != events.LimitRounds {
		f.fail("the %s limit of %d is recorded as reached by %d", ev.Kind, ev.Limit, ev.Used)
	}
	b.reached = &ev
}

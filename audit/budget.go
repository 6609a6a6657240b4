package audit

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// budgetHeld: the limits of the turn and the session at that time count. Rounds and attempts count
// when they start, calls when they are requested, tokens and cost when they are recorded. Wall-clock
// time is not checked, because journals do not record all waits.
func budgetHeld() rule {
	var b budget
	return func(f *fact) {
		if b.reached != nil && starts(f.event) {
			f.fail("a %T after the %s limit was reached", f.event, b.reached.Kind)
		}
		switch ev := f.event.(type) {
		case events.RunStarted:
			b.config = ev.Config
		case events.ConfigChanged:
			b.config = ev.Config
		case events.TurnStarted:
			b.options, b.turn, b.reached = ev.Options, events.Limits{}, nil
		case events.InputAccepted:
			if ev.Options != nil {
				b.options = ev.Options
			}
		case events.RoundStarted:
			b.overspent, b.overcalled = false, false
			b.count(events.LimitRounds, 1)
			b.judge(f, append(spending(), events.LimitRounds)...)
		case events.ModelCallStarted:
			b.count(events.LimitRequests, 1)
			b.judge(f, events.LimitRequests)
		case events.UsageUpdated:
			b.spend(f, ev)
		case events.ToolCallRequested:
			b.count(events.LimitToolCalls, 1)
			b.overcalled = b.exceeded(events.LimitToolCalls) != ""
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

// spending lists the limits of what a reply costs.
func spending() []events.LimitKind {
	return []events.LimitKind{events.LimitInputTokens, events.LimitOutputTokens, events.LimitTotalTokens, events.LimitCost}
}

// budget has the limits in force and their usage.
type budget struct {
	config        events.Config
	options       *events.TurnOptions
	turn, session events.Limits // used
	overspent     bool          // the round's reply exceeded a limit
	overcalled    bool
	reached       *events.LimitReached
}

func (b *budget) count(k events.LimitKind, n int64) {
	*b.turn.Of(k) += n
	*b.session.Of(k) += n
}

// exceeded returns the first exceeded limit, or "".
func (b *budget) exceeded(kinds ...events.LimitKind) string {
	turn := b.config.Limits
	if b.options != nil && b.options.Limits != nil {
		turn = *b.options.Limits
	}
	for _, k := range kinds {
		if over(*turn.Of(k), *b.turn.Of(k)) {
			return "the turn's " + string(k) + " limit"
		}
		if over(*b.config.SessionLimits.Of(k), *b.session.Of(k)) {
			return "the session's " + string(k) + " limit"
		}
	}
	return ""
}

func over(limit, used int64) bool { return limit != 0 && used > max(limit, 0) }

func (b *budget) judge(f *fact, kinds ...events.LimitKind) {
	if limit := b.exceeded(kinds...); limit != "" {
		f.fail("a %T beyond %s", f.event, limit)
	}
}

func (b *budget) spend(f *fact, ev events.UsageUpdated) {
	spent := [...]struct {
		kind events.LimitKind
		n    int64
	}{
		{events.LimitInputTokens, ev.Usage.InputTokens},
		{events.LimitOutputTokens, ev.Usage.OutputTokens},
		{events.LimitTotalTokens, ev.Usage.TotalTokens()},
		{events.LimitCost, ev.Usage.CostMicros},
		{events.LimitRequests, ev.Requests},
		{events.LimitToolCalls, ev.ToolCalls},
	}
	for _, s := range spent {
		*b.session.Of(s.kind) += s.n
		if f.ledger.turn != "" {
			*b.turn.Of(s.kind) += s.n
		}
	}
	if ev.Source == sourceModel {
		b.overspent = b.exceeded(spending()...) != ""
	}
}

// tool checks a call of the open round when its question is raised or it starts for the first
// time. The limit may have changed since the reply; both must allow the call.
func (b *budget) tool(f *fact, id content.CallID) {
	c, known := f.ledger.calls[id]
	if !known || c.attempt > 0 || c.waits {
		return
	}
	if b.overspent {
		b.judge(f, spending()...)
	}
	if b.overcalled {
		b.judge(f, events.LimitToolCalls)
	}
}

func (b *budget) reach(f *fact, ev events.LimitReached) {
	if b.reached != nil {
		f.fail("the %s limit is reached in a turn that the %s limit ended", ev.Kind, b.reached.Kind)
	}
	if ev.Used < ev.Limit || ev.Used == ev.Limit && ev.Kind != events.LimitRounds {
		f.fail("the %s limit of %d is recorded as reached by %d", ev.Kind, ev.Limit, ev.Used)
	}
	b.reached = &ev
}

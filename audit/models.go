package audit

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Sources of recorded usage.
const (
	sourceModel      = "model"
	sourceCompaction = "compaction"
	sourceChild      = "child"
)

// oneReply: attempts of a round are numbered from 1. Each ends in a reply or a failure before the
// next begins, another follows only a retryable failure or a crash, and none follows the reply. Only
// a cancel or a limit ends a turn during an open attempt.
func oneReply() rule {
	var attempt int
	var open, replied, again bool
	answered := func(f *fact, n int) {
		if !open || n != attempt {
			f.fail("a %T of attempt %d, but that attempt is not open", f.event, n)
		}
		open = false
	}
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.RoundStarted:
			attempt, open, replied, again = 0, false, false, true
		case events.ModelCallStarted:
			switch {
			case replied:
				f.fail("attempt %d starts in a round that already has its reply", ev.Attempt)
			case open:
				f.fail("attempt %d starts while attempt %d is open", ev.Attempt, attempt)
			case !again:
				f.fail("attempt %d follows a failure that was final", ev.Attempt)
			}
			if ev.Attempt != attempt+1 {
				f.fail("attempt %d starts, want attempt %d", ev.Attempt, attempt+1)
			}
			attempt, open, again = ev.Attempt, true, false
		case events.ModelCallFailed:
			answered(f, ev.Attempt)
			again = ev.RetryAt != 0 || ev.Class == content.ClassLost
		case events.ReplyRecorded:
			if !f.ledger.resumed || ev.Attempt != 0 || replied {
				answered(f, ev.Attempt)
			}
			replied = true
		case events.TurnFinished:
			if open && ev.FinishReason != content.Cancelled && ev.FinishReason != content.Limit {
				f.fail("%s finishes as %s while attempt %d is open", ev.Turn, ev.FinishReason, attempt)
			}
			open = false
		}
	}
}

// usageAddsUp: a mutator, and a call whose outcome arrived after its turn, are also billed at most
// once. Only sub-agents report requests and tool calls.
func usageAddsUp() rule {
	var sum, mutation content.Usage
	billable := false
	billed := map[content.CallID]bool{}
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.TurnStarted:
			sum = content.Usage{}
		case events.ModelCallStarted:
			billable = true
		case events.MutationFinished:
			mutation = ev.Usage
		case events.UsageUpdated:
			if f.ledger.turn != "" {
				sum = sum.Add(ev.Usage)
			}
			if ev.Source != sourceChild && (ev.Requests != 0 || ev.ToolCalls != 0) {
				f.fail("a %s is billed for %d requests and %d tool calls", ev.Source, ev.Requests, ev.ToolCalls)
			}
			if ev.Call != "" && billed[ev.Call] {
				f.fail("call %s is billed twice", ev.Call)
			}
			billed[ev.Call] = ev.Call != ""
			switch ev.Source {
			case sourceModel:
				if !billable {
					f.fail("usage of a model is recorded twice for one attempt of round %d", ev.Round)
				}
				billable = false
			case sourceCompaction:
				if ev.Usage != mutation {
					f.fail("a mutator is billed for %+v, but reported %+v", ev.Usage, mutation)
				}
				mutation = content.Usage{}
			}
		case events.TurnFinished:
			if ev.Usage != sum {
				f.fail("%s finishes with usage %+v, but %+v was recorded", ev.Turn, ev.Usage, sum)
			}
		}
	}
}

func parkedAtRest() rule {
	calling := false
	return func(f *fact) {
		switch f.event.(type) {
		case events.ModelCallStarted:
			calling = true
		case events.ModelCallFailed, events.ReplyRecorded, events.TurnFinished:
			calling = false
		case events.Parked:
			if calling {
				f.fail("the session is parked while a model is being called")
			}
		}
	}
}

// cancelHolds: background calls continue after the cancel of a turn.
func cancelHolds() rule {
	turn := false
	calls := map[content.CallID]bool{}
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.CancelRequested:
			if ev.Scope == "call" {
				calls[ev.Target] = true
			} else {
				turn = f.ledger.turn != ""
			}
		case events.TurnFinished:
			turn = false
		case events.ToolDispatched:
			if calls[ev.Call] || turn && !f.ledger.background(ev.Call) {
				f.fail("call %s starts after its cancel", ev.Call)
			}
		case events.RoundStarted, events.ModelCallStarted, events.ApprovalRequired, events.VerifyStarted:
			if turn {
				f.fail("a %T in a canceled turn", f.event)
			}
		}
	}
}

// mutationsPaired: mutators run one at a time, each outcome belongs to the mutator that was
// started, and only a mutator that succeeded with a change records a replacement.
func mutationsPaired() rule {
	var open *events.MutationStarted
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.MutationStarted:
			if open != nil && open.Turn == ev.Turn {
				f.fail("mutator %s starts while %s is running", ev.Mutator, open.Mutator)
			}
			open = &ev
		case events.MutationFinished:
			if open == nil || *open != (events.MutationStarted{Turn: ev.Turn, Mutator: ev.Mutator, Point: ev.Point}) {
				f.fail("mutator %s finishes at %s without having started there", ev.Mutator, ev.Point)
			}
			if ev.Dirty && ev.Error != "" || !ev.Dirty && len(ev.Replacement) > 0 {
				f.fail("mutator %s replaces the transcript: dirty %t, error %q", ev.Mutator, ev.Dirty, ev.Error)
			}
			open = nil
		}
	}
}

package audit

import (
	"bytes"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// approvalBeforeRun: questions raised before the round runs block the whole round, later ones only
// their call. A patched call runs with the approved arguments.
func approvalBeforeRun() rule {
	return func(f *fact) {
		ev, ok := f.event.(events.ToolDispatched)
		if !ok {
			return
		}
		c := f.ledger.of(ev.Call)
		for _, a := range c.questions {
			a.judge(f, ev)
		}
		if id, open := f.ledger.holding(c); open && !f.ledger.background(ev.Call) {
			f.fail("call %s starts while approval %s of its round is undecided", ev.Call, id)
		}
		if patch := c.patch; patch != nil && !bytes.Equal(patch, ev.Input) {
			f.fail("call %s was approved with the arguments %s, but runs with %s", ev.Call, patch, ev.Input)
		}
	}
}

// judge reports why the question forbids the dispatch.
func (a *approval) judge(f *fact, ev events.ToolDispatched) {
	c := f.ledger.of(ev.Call)
	switch {
	case a.outcome == "":
		f.fail("call %s starts while its approval %s is undecided", ev.Call, a.ID)
	case a.outcome != events.Approved:
		f.fail("call %s starts, but its approval %s was %s", ev.Call, a.ID, a.outcome)
	case c.patch == nil && a.Digest != "" && ev.Digest != "" && a.Digest != ev.Digest:
		f.fail("call %s was approved with arguments of digest %s, but runs with %s", ev.Call, a.Digest, ev.Digest)
	}
}

// approvalOnce: an approval is about an open call. It may stay open across turns only if the call runs
// in the background.
func approvalOnce() rule {
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.ApprovalRequired:
			if f.ledger.approvals[ev.Approval.ID] != nil {
				f.fail("approval %s is requested twice", ev.Approval.ID)
			}
			if c, known := f.ledger.calls[ev.Approval.CallID]; (!known || c.ended()) && ev.Approval.RequestKind != loop.KindVerifier {
				f.fail("approval %s is about call %s, which is not open", ev.Approval.ID, ev.Approval.CallID)
			}
		case events.ApprovalResolved:
			switch a := f.ledger.approvals[ev.Approval]; {
			case a == nil:
				f.fail("approval %s is settled, but was never requested", ev.Approval)
			case a.settled:
				f.fail("approval %s is settled twice", ev.Approval)
			case a.CallID != ev.Call:
				f.fail("approval %s is about call %s, but is settled for %s", ev.Approval, a.CallID, ev.Call)
			default:
				a.decide(f, ev)
			}
		case events.RoundFinished, events.TurnFinished:
			for _, a := range f.ledger.asked {
				if !a.settled && !f.ledger.background(a.CallID) {
					f.fail("a %T, but approval %s is undecided", f.event, a.ID)
					return
				}
			}
		}
	}
}

// decide checks a decision and its time: an approval expires only at its deadline.
func (a *approval) decide(f *fact, ev events.ApprovalResolved) {
	switch {
	case ev.Outcome != events.Expired:
	case ev.Decider() != "":
		f.fail("approval %s expired, but %s is recorded as its decider", ev.Approval, ev.Decider())
	case a.ExpiresAt == 0 || f.entry.At < a.ExpiresAt:
		f.fail("approval %s expired before its deadline", ev.Approval)
	}
	digest := f.ledger.of(ev.Call).digest
	if len(ev.Input) == 0 && ev.Digest != "" && digest != "" && ev.Digest != digest {
		f.fail("approval %s was decided on arguments of digest %s, but the call has %s", ev.Approval, ev.Digest, digest)
	}
}

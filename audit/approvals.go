package audit

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// approvalBeforeRun: questions raised before the round ran block the whole round, later
// ones block their call. A call runs only if each of its questions was approved, with the
// approved arguments.
func approvalBeforeRun() rule {
	var gates []*gate // of the open turn
	patches := map[content.CallID]json.RawMessage{}
	return func(f fact) {
		switch ev := f.event.(type) {
		case events.TurnStarted: // background calls continue
			gates = slices.DeleteFunc(gates, func(g *gate) bool { return !f.ledger.beside(g.call) })
			maps.DeleteFunc(patches, func(id content.CallID, _ json.RawMessage) bool { return !f.ledger.beside(id) })
		case events.ApprovalRequired:
			a := ev.Approval
			c, known := f.ledger.calls[a.CallID]
			gates = append(gates, &gate{id: a.ID, call: a.CallID, round: a.Round, digest: a.Digest, late: known && c.attempt > 0})
		case events.ApprovalResolved:
			for _, g := range gates {
				if g.id == ev.Approval {
					g.outcome = ev.Outcome
				}
			}
			if len(ev.Input) > 0 {
				patches[ev.Call] = ev.Input
			}
		case events.ToolDispatched:
			for _, g := range gates {
				g.judge(f, ev, patches[ev.Call] != nil)
			}
			if patch := patches[ev.Call]; patch != nil && !bytes.Equal(patch, ev.Input) {
				f.fail("call %s was approved with the arguments %s, but runs with %s", ev.Call, patch, ev.Input)
			}
		}
	}
}

// gate is one question about one call.
type gate struct {
	id      content.ApprovalID
	call    content.CallID
	round   int
	digest  string
	late    bool // its call was running
	outcome events.Outcome
}

// judge returns why the question forbids the dispatch.
func (g *gate) judge(f fact, ev events.ToolDispatched, patched bool) {
	c, known := f.ledger.calls[ev.Call]
	switch {
	case g.call != ev.Call:
		if g.outcome == "" && !g.late && known && !f.ledger.beside(ev.Call) && c.round == g.round {
			f.fail("call %s starts while approval %s of its round is undecided", ev.Call, g.id)
		}
	case g.outcome == "":
		f.fail("call %s starts while its approval %s is undecided", ev.Call, g.id)
	case g.outcome != events.Approved:
		f.fail("call %s starts, but its approval %s was %s", ev.Call, g.id, g.outcome)
	case !patched && g.digest != "" && ev.Digest != "" && g.digest != ev.Digest:
		f.fail("call %s was approved with arguments of digest %s, but runs with %s", ev.Call, g.digest, ev.Digest)
	}
}

// approvalOnce: an approval is requested once, for an open call, and settled once, by the
// end of its round or turn at the latest. A decision is about the call's current arguments,
// and an approval expires at its deadline and without a decision.
func approvalOnce() rule {
	open := map[content.ApprovalID]content.CallID{}
	deadlines := map[content.ApprovalID]content.Time{}
	digests := map[content.CallID]string{} // of the current arguments
	asked := map[content.ApprovalID]bool{}
	return func(f fact) {
		switch ev := f.event.(type) {
		case events.ApprovalRequired:
			a := ev.Approval
			if asked[a.ID] {
				f.fail("approval %s is asked for twice", a.ID)
			}
			if c, known := f.ledger.calls[a.CallID]; !known || (c.status != "" || c.late) && !c.again {
				f.fail("approval %s is about call %s, which is not open", a.ID, a.CallID)
			}
			asked[a.ID], open[a.ID] = true, a.CallID
			deadlines[a.ID], digests[a.CallID] = a.ExpiresAt, a.Digest
		case events.ApprovalResolved:
			switch call, undecided := open[ev.Approval]; {
			case !asked[ev.Approval]:
				f.fail("approval %s is settled, but was never asked for", ev.Approval)
			case !undecided:
				f.fail("approval %s is settled twice", ev.Approval)
			case call != ev.Call:
				f.fail("approval %s is about call %s, but is settled for %s", ev.Approval, call, ev.Call)
			}
			delete(open, ev.Approval)
			if len(ev.Input) > 0 {
				digests[ev.Call] = ev.Digest
			}
			decision(f, ev, deadlines[ev.Approval], digests[ev.Call])
		case events.RoundFinished:
			undecided(f, open)
		case events.TurnFinished:
			undecided(f, open)
			maps.DeleteFunc(open, func(_ content.ApprovalID, id content.CallID) bool { return !f.ledger.beside(id) })
			maps.DeleteFunc(digests, func(id content.CallID, _ string) bool { return !f.ledger.beside(id) })
		}
	}
}

// decision checks what was decided, and when.
func decision(f fact, ev events.ApprovalResolved, deadline content.Time, digest string) {
	switch {
	case ev.Outcome != events.Expired:
	case ev.By != "":
		f.fail("approval %s expired, but %s is said to have decided it", ev.Approval, ev.By)
	case deadline == 0 || f.entry.At < deadline:
		f.fail("approval %s expired before its deadline", ev.Approval)
	}
	if ev.Digest != "" && digest != "" && ev.Digest != digest {
		f.fail("approval %s was decided on arguments of digest %s, but the call has %s", ev.Approval, ev.Digest, digest)
	}
}

// undecided reports the first open question. Those of background calls may stay open
// across turns.
func undecided(f fact, open map[content.ApprovalID]content.CallID) {
	for _, id := range slices.Sorted(maps.Keys(open)) {
		if !f.ledger.beside(open[id]) {
			f.fail("a %T, but approval %s is undecided", f.event, id)
			return
		}
	}
}

package loop

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Grant is a question that a person answered for the rest of the session. It opens
// the gates that ask the same of the same tool, and nothing wider: the kind and the
// scope have to be equal.
type Grant struct {
	Approval content.ApprovalID // the one that was approved for always
	By       string
	Tool     string
	Key      content.GateKey
	Turn     content.TurnID // of the call that was asked about
}

// Allowance is what a person lets run for the rest of the session without being asked
// by the session's rules.
type Allowance struct {
	Grant content.ApprovalID
	By    string
	Tools []string // names, in which * stands for any characters
}

// key names the approval's question.
func (a Approval) key() content.GateKey { return content.GateKey{Kind: a.RequestKind, Scope: a.Scope} }

// granted finds what was approved for always and opens a gate. A turn that asks on its
// own account wants to be asked: only what was approved for it counts.
func (s *State) granted(a events.Approval) (Grant, bool) {
	if a.RequestKind == kindRetry {
		return Grant{}, false
	}
	key := Approval{Approval: a}.key()
	i := slices.IndexFunc(s.Grants, func(g Grant) bool {
		return g.Tool == a.Tool && g.Key == key && (a.Asker != events.AskedByTurn || g.Turn == a.Turn)
	})
	if i < 0 {
		return Grant{}, false
	}
	return s.Grants[i], true
}

// approvedFor lists the questions about a call that are answered, so that whoever
// runs it need not ask them again.
func (s *State) approvedFor(c Call) []content.GateKey {
	out := slices.Clone(c.Approved)
	for _, g := range s.Grants {
		if g.Tool == c.Name && !slices.Contains(out, g.Key) {
			out = append(out, g.Key)
		}
	}
	return out
}

// lasting refuses a lasting approval that does not say what it would be about.
func lasting(c commands.ResolveApproval, a Approval) error {
	switch {
	case !c.Always:
		return nil
	case len(c.Input) > 0:
		return refuse(ReasonInvalidInput, "other arguments are approved for this call alone: leave out always, or the input")
	case !c.Approve:
		return refuse(ReasonInvalidInput, "only an approval can be for always: a denial is about this call alone")
	case a.RequestKind == kindRetry:
		return refuse(ReasonInvalidInput, "a lost call is decided on each time: leave out always")
	}
	return nil
}

// allow takes in that the calls of some tools need not be asked about.
func (d *decision) allow(c commands.AllowTools) error {
	if len(c.Tools) == 0 || len(c.Tools) > maxRules {
		return refuse(ReasonInvalidInput, "%d tools to allow: name 1 to %d", len(c.Tools), maxRules)
	}
	var fresh []string
	for _, p := range c.Tools {
		if !validPattern(p) {
			return refusePattern(p)
		}
		known := slices.ContainsFunc(d.Allowed, func(w Allowance) bool { return slices.Contains(w.Tools, p) })
		if !known && !slices.Contains(fresh, p) {
			fresh = append(fresh, p)
		}
	}
	if len(fresh) == 0 {
		return nil // it is so
	}
	by := cmp.Or(c.By, d.env.By)
	d.emit(events.ToolsAllowed{Grant: content.ApprovalID("grant-" + strconv.Itoa(len(d.Allowed)+1)), Tools: fresh, By: by})
	d.settleGranted()
	d.goOnBeside()
	return nil
}

// allows reports whether the allowance names the tool.
func (w Allowance) allows(name string) bool {
	return slices.ContainsFunc(w.Tools, func(p string) bool { return content.Matches(p, name) })
}

// settleGranted approves the open gates that what was just given answers, too.
func (d *decision) settleGranted() {
	for _, a := range slices.Clone(d.approvals()) {
		if a.Outcome != "" {
			continue
		}
		if ev, ok := d.opened(a.Approval); ok {
			d.emit(ev)
		}
	}
}

// opened is the record of a gate that need not be asked about, if it need not: what
// was approved for always opens it, or, if the session's rules alone ask, an allowance.
func (s *State) opened(a events.Approval) (events.ApprovalResolved, bool) {
	ev := events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: events.Approved, Digest: a.Digest}
	if g, ok := s.granted(a); ok {
		ev.By, ev.Grant = g.By, g.Approval
		return ev, true
	}
	i := slices.IndexFunc(s.Allowed, func(w Allowance) bool { return w.allows(a.Tool) })
	if i < 0 || a.Asker != events.AskedByRules {
		return ev, false
	}
	ev.By, ev.Grant = s.Allowed[i].By, s.Allowed[i].Grant
	return ev, true
}

// covers reports whether the gate g of the same call and question need not come up
// beside the approval: it is open, or was approved by somebody who answers for g.
func (a Approval) covers(g commands.Gate) bool {
	return a.Outcome == "" || a.Outcome == events.Approved && (!a.Allowed || g.Asker == events.AskedByRules)
}

// applyApproved keeps what an approval answers: for its call, and for the session
// if it is lasting.
func (s *State) applyApproved(a Approval, ev events.ApprovalResolved) {
	if ev.Outcome != events.Approved {
		return
	}
	if c, ok := s.Call(a.CallID); ok && !a.Allowed { // an allowance is no answer to whoever runs the call
		c.Approved = append(slices.Clip(c.Approved), a.key())
	}
	if ev.Always {
		s.Grants = append(slices.Clip(s.Grants), Grant{Approval: a.ID, By: ev.By, Tool: a.Tool, Key: a.key(), Turn: a.Turn})
	}
}

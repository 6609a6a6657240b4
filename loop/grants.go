package loop

import (
	"slices"

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
}

// key names the approval's question.
func (a Approval) key() content.GateKey { return content.GateKey{Kind: a.RequestKind, Scope: a.Scope} }

// granted finds what opens a gate of a tool without asking anybody.
func (s *State) granted(tool string, k content.GateKey) (Grant, bool) {
	if k.Kind == kindRetry {
		return Grant{}, false
	}
	i := slices.IndexFunc(s.Grants, func(g Grant) bool { return g.Tool == tool && g.Key == k })
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

// settleGranted approves the open gates that a new grant answers, too.
func (d *decision) settleGranted() {
	for _, a := range slices.Clone(d.approvals()) {
		if g, ok := d.granted(a.Tool, a.key()); ok && a.Outcome == "" {
			d.emit(settled(a.Approval, g))
		}
	}
}

// settled is the record of a gate that was opened without asking.
func settled(a events.Approval, g Grant) events.ApprovalResolved {
	return events.ApprovalResolved{
		Approval: a.ID, Call: a.CallID, Outcome: events.Approved, By: g.By, Digest: a.Digest, Grant: g.Approval,
	}
}

// applyApproved keeps what an approval answers: for its call, and for the session
// if it is lasting.
func (s *State) applyApproved(a Approval, ev events.ApprovalResolved) {
	if ev.Outcome != events.Approved {
		return
	}
	if c, ok := s.Call(a.CallID); ok {
		c.Approved = append(slices.Clip(c.Approved), a.key())
	}
	if ev.Always {
		s.Grants = append(slices.Clip(s.Grants), Grant{Approval: a.ID, By: ev.By, Tool: a.Tool, Key: a.key()})
	}
}

package loop

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Grant is a question that a person approved for the rest of the session. It answers the
// same question about the same tool and nothing wider: kind and scope must be equal.
type Grant struct {
	Approval content.ApprovalID // the one that was approved
	By       string
	Tool     string
	Key      content.GateKey
	Turn     content.TurnID // of the call in question
}

// Allowance lists tools that a person lets run for the rest of the session although the
// session's rules ask.
type Allowance struct {
	Grant content.ApprovalID
	By    string
	Tools []string // names, in which * stands for any characters
}

// preapproved returns the resolution of a question that need not be asked: a grant answers
// it, or an allowance if the session's rules alone ask. A turn that asks by itself wants an
// answer, so for it only grants from the same turn count.
func (s *State) preapproved(a events.Approval) (events.ApprovalResolved, bool) {
	ev := events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: events.Approved, Digest: a.Digest}
	for _, g := range s.Grants {
		same := g.Tool == a.Tool && g.Key == Approval{Approval: a}.key() && a.RequestKind != kindRetry
		if same && (a.Asker != events.AskedByTurn || g.Turn == a.Turn) {
			ev.By, ev.Grant = g.By, g.Approval
			return ev, true
		}
	}
	for _, w := range s.Allowed {
		if a.Asker == events.AskedByRules && slices.ContainsFunc(w.Tools, func(p string) bool { return content.Matches(p, a.Tool) }) {
			ev.By, ev.Grant = w.By, w.Grant
			return ev, true
		}
	}
	return ev, false
}

// approvedFor lists the answered questions about a call, which its runner need not ask.
func (s *State) approvedFor(c Call) []content.GateKey {
	out := slices.Clone(c.Approved)
	for _, g := range s.Grants {
		if g.Tool == c.Name && !slices.Contains(out, g.Key) {
			out = append(out, g.Key)
		}
	}
	return out
}

// allow records that some tools may run without a question.
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
		return nil
	}
	grant := content.ApprovalID("grant-" + strconv.Itoa(len(d.Allowed)+1))
	d.emit(events.ToolsAllowed{Grant: grant, Tools: fresh, By: cmp.Or(c.By, d.env.By)})
	d.resolvePreapproved()
	return nil
}

// resolvePreapproved approves the pending questions that a new grant or allowance answers.
func (d *decision) resolvePreapproved() {
	for _, a := range d.approvals() {
		if ev, ok := d.preapproved(a.Approval); ok && a.Outcome == "" {
			d.emit(ev)
		}
	}
	d.resumeBackground()
}

// resolve decides an approval.
func (d *decision) resolve(c commands.ResolveApproval) error {
	a, err := d.findApproval(c)
	switch {
	case err != nil:
		return err
	case a.ExpiresAt != 0 && a.ExpiresAt <= d.At:
		return refuse(ReasonExpired, "the approval for call %s expired", a.CallID) // its timer records it
	case c.Always && len(c.Input) > 0:
		return refuse(ReasonInvalidInput, "other arguments are approved for this call alone: leave out always, or the input")
	case c.Always && !c.Approve:
		return refuse(ReasonInvalidInput, "only an approval can be for always: a denial is about this call alone")
	case c.Always && a.RequestKind == kindRetry:
		return refuse(ReasonInvalidInput, "a lost call is decided on each time: leave out always")
	}
	ev := events.ApprovalResolved{
		Approval: a.ID, Call: a.CallID, Outcome: events.Approved, By: cmp.Or(c.By, d.env.By), Reason: c.Reason,
		Digest: a.Digest, Always: c.Always,
	}
	switch {
	case len(c.Input) > 0:
		return d.resolvePatched(ev, a.RequestKind, c)
	case !c.Approve:
		d.deny(ev)
	default:
		d.emit(ev)
	}
	if c.Always {
		d.resolvePreapproved()
	}
	d.resumeBackground()
	return nil
}

// deny denies one question and with it the call: the other questions about it are moot.
func (d *decision) deny(ev events.ApprovalResolved) {
	ev.Outcome = events.Denied
	d.emit(ev)
	d.settle(ev.Call, events.Moot)
	if call, ok := d.Call(ev.Call); ok {
		text := content.DenialText(cmp.Or(ev.Reason, "denied by approver"))
		if call.Lost > 0 {
			text += textNotRetry
		}
		d.answer(*call, content.StatusDenied, codeDeniedByPerson, text)
	}
}

// resolvePatched approves a question with other arguments. The host has checked the patched
// call: its new questions are asked, an approved one is not asked again. What is approved
// is the question's scope for the new arguments.
func (d *decision) resolvePatched(ev events.ApprovalResolved, kind string, c commands.ResolveApproval) error {
	call, _ := d.Call(ev.Call)
	i := slices.IndexFunc(d.env.Checks, func(k commands.Check) bool { return k.Place == call.Place })
	if i < 0 {
		return refuse(ReasonInvalidInput, "the patched input was not checked against the tool's schema")
	}
	check := d.env.Checks[i]
	if r := check.Refusal; r != nil && r.Status == content.StatusError {
		return refuse(ReasonInvalidInput, "%s", r.Message)
	}
	ev.Input, ev.Digest = c.Input, check.Digest
	if i := slices.IndexFunc(check.Gates, func(q commands.Gate) bool { return q.RequestKind == kind }); i >= 0 {
		ev.Scope = check.Gates[i].Scope
	}
	d.emit(ev)
	if check.Refusal != nil {
		d.settle(ev.Call, events.Moot)
	}
	call, _ = d.Call(ev.Call)
	d.check(*call, check)
	d.resumeBackground()
	return nil
}

// findApproval finds the oldest pending approval that the command names, or says what
// became of it.
func (d *decision) findApproval(c commands.ResolveApproval) (a Approval, err error) {
	open := d.PendingApprovals()
	what, match := "", func(a Approval) bool { return a.Outcome == "" }
	switch {
	case c.Approval == "" && c.Call != "" && !d.CallIDs.Has(c.Call):
		return a, refuse(ReasonUnknownCall, "no call %s", c.Call)
	case d.Turn == nil && c.Approval != "" && len(d.Beside) == 0:
		return a, refuse(ReasonNoApproval, "approval %s is not pending: no turn is open", c.Approval)
	case d.Turn == nil && c.Call != "" && !d.asksBeside(c.Call):
		return a, refuse(ReasonNoApproval, "an approval for call %s is not pending: its turn is over", c.Call)
	case c.Approval != "":
		what, match = "approval "+string(c.Approval), func(a Approval) bool { return a.ID == c.Approval }
	case c.Call != "":
		what, match = "an approval for call "+string(c.Call), func(a Approval) bool { return a.CallID == c.Call }
	case len(open) == 0:
		return a, refuse(ReasonNoApproval, "no approval is pending")
	case len(open) > 1:
		return a, refuse(ReasonSeveralPending, "%d approvals are pending; name the call", len(open))
	}
	for _, b := range d.approvals() {
		switch {
		case !match(b):
		case b.Outcome == "":
			return b, nil
		case a.Outcome == "" || b.Outcome != events.Moot:
			a = b
		}
	}
	switch {
	case a.Outcome == "":
		return a, refuse(ReasonNoApproval, "%s is not pending", what)
	case a.Outcome == events.Expired:
		return a, refuse(ReasonExpired, "%s expired", what)
	case a.By != "":
		return a, refuse(ReasonAlreadyDecided, "%s was %s by %s", what, a.Outcome, a.By)
	}
	return a, refuse(ReasonAlreadyDecided, "%s was %s", what, a.Outcome)
}

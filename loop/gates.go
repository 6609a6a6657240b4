package loop

import (
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (d *decision) preflight(c commands.ReportPreflight) {
	if p, _ := d.where(); p != atPreflight || c.Turn != d.Turn.ID || c.Round != d.Turn.Round {
		return
	}
	d.checks, d.answers = c.Checks, slices.Clone(c.Hooks)
	d.advance()
}

// gates judges the calls of a reply: limits first, then the checks of every call,
// in order, before any of them runs. Without checks they are owed.
func (d *decision) gates() bool {
	if d.limited(d.overAfterReply()) || d.limited(d.overTools()) {
		return true
	}
	open := slices.DeleteFunc(slices.Clone(d.Turn.Calls), Call.Answered)
	checks := make([]commands.Check, len(open))
	for i, c := range open {
		j := slices.IndexFunc(d.checks, func(k commands.Check) bool { return k.Place == c.Place })
		if j < 0 {
			return false
		}
		checks[i] = d.checks[j]
	}
	before := len(d.events)
	for i, c := range open {
		d.check(c, checks[i])
	}
	return len(d.events) > before || d.runFirst()
}

// runFirst starts the first call of a round in which every call may run. Nothing
// was recorded of the checks yet, so what follows has to be: a hook's answer or a
// dispatch.
func (d *decision) runFirst() bool {
	i := d.nextCall()
	if id := d.Turn.Calls[i].ID; d.owesHook(pointPreTool, id) {
		return d.answered(owedHook{pointPreTool, id})
	}
	d.dispatchCall(i)
	return true
}

// check records what came of one call's preflight. A call that may simply run
// leaves no trace here: its dispatch says so.
func (d *decision) check(c Call, k commands.Check) {
	if r := k.Refusal; r != nil {
		status := content.StatusError
		if r.Status == content.StatusDenied {
			status = content.StatusDenied
		}
		d.emitResult(c, status, r.Code, r.Message, c.Answered())
		d.warnTool(c.ID, status, r.Message)
		return
	}
	for _, g := range k.Gates {
		d.ask(c, g, k.Digest)
	}
}

// ask records a gate, unless the call passed it before. One that was opened before it
// came up is recorded as approved at once.
func (d *decision) ask(c Call, g commands.Gate, digest string) {
	key := content.GateKey{Kind: g.RequestKind, Scope: g.Scope}
	for _, a := range d.approvals() {
		if a.CallID == c.ID && a.key() == key && key.Kind != kindRetry && a.covers(g) {
			return
		}
	}
	if now, ok := d.State.Call(c.ID); ok {
		c.Gates = now.Gates
	}
	ttl := g.TTL
	if ttl == 0 {
		ttl = d.Config.ApprovalTTL
	}
	a := events.Approval{
		ID:     content.ApprovalID(string(c.Place) + "-g" + strconv.Itoa(c.Gates+1)),
		CallID: c.ID, TaskID: c.Place, Turn: c.Turn, Round: c.Round,
		Tool: c.Name, Input: c.EffectiveInput(), Digest: digest,
		RequestKind: g.RequestKind, Scope: g.Scope, Reason: g.Reason, Summary: g.Summary, Metadata: g.Metadata, Asker: g.Asker,
	}
	if opened, ok := d.opened(a); ok {
		d.emit(events.ApprovalRequired{Approval: a}, opened)
		return
	}
	if ttl > 0 {
		a.ExpiresAt = d.At.Add(ttl)
	}
	d.emit(events.ApprovalRequired{Approval: a})
}

// lateGate takes in that a running call needs an approval nobody could foresee.
func (d *decision) lateGate(c commands.ReportGate) {
	call, ok := d.CallAt(c.Place)
	if !ok || !call.Running() || call.Attempt != c.Attempt || len(call.Approved) != c.N {
		return
	}
	late := *call
	if d.Closed && late.Answered() {
		d.emitResult(late, content.StatusDenied, string(c.Gate.Reason), "Permission denied: "+string(c.Gate.Reason)+": the session is closed", true)
		return
	}
	for _, g := range append([]commands.Gate{c.Gate}, c.Also...) {
		d.ask(late, g, late.Digest)
	}
	d.goOnBeside()
}

// goOnBeside lets the calls in the background go on whose gates are all approved.
func (d *decision) goOnBeside() {
	for _, c := range d.behind() {
		if len(c.Asked) > 0 && !d.undecided(c.ID) {
			d.emit(d.dispatched(c))
		}
	}
}

// resolve decides an approval.
func (d *decision) resolve(c commands.ResolveApproval) error {
	a, err := d.findApproval(c)
	if err != nil {
		return err
	}
	if a.ExpiresAt != 0 && a.ExpiresAt <= d.At {
		return refuse(ReasonExpired, "the approval for call %s expired", a.CallID) // its timer records it
	}
	if err := lasting(c, *a); err != nil {
		return err
	}
	by := c.By
	if by == "" {
		by = d.env.By
	}
	ev := events.ApprovalResolved{
		Approval: a.ID, Call: a.CallID, Outcome: events.Approved, By: by, Reason: c.Reason, Digest: a.Digest, Always: c.Always,
	}
	switch {
	case len(c.Input) > 0:
		return d.resolvePatched(ev, a.RequestKind, c)
	case !c.Approve:
		d.denyCall(ev)
	default:
		d.emit(ev)
		if c.Always {
			d.settleGranted()
		}
	}
	d.goOnBeside()
	return nil
}

// denyCall denies one gate and with it the call: its other gates are moot.
func (d *decision) denyCall(ev events.ApprovalResolved) {
	ev.Outcome = events.Denied
	reason := ev.Reason
	if reason == "" {
		reason = "denied by approver"
	}
	d.emit(ev)
	d.resolveAll(ev.Call, events.Moot)
	if call, ok := d.State.Call(ev.Call); ok {
		if call.Lost > 0 {
			reason += textNotRetry
		}
		d.emitResult(*call, content.StatusDenied, codeDeniedByPerson, "Permission denied: "+reason, call.Answered())
	}
}

// resolvePatched approves a gate with other arguments. The host has judged the
// patched call; what that asks for is asked, an approved gate is not asked again.
// Approved is what the arguments are about now, at the gate where they were given.
func (d *decision) resolvePatched(ev events.ApprovalResolved, kind string, c commands.ResolveApproval) error {
	call, _ := d.State.Call(ev.Call)
	i := slices.IndexFunc(d.env.Checks, func(k commands.Check) bool { return k.Place == call.Place })
	if i < 0 {
		return refuse(ReasonInvalidInput, "the patched input was not checked against the tool's schema")
	}
	check := d.env.Checks[i]
	if r := check.Refusal; r != nil && r.Status == content.StatusError {
		return refuse(ReasonInvalidInput, "%s", r.Message)
	}
	ev.Input, ev.Digest = c.Input, check.Digest
	if i := slices.IndexFunc(check.Gates, func(g commands.Gate) bool { return g.RequestKind == kind }); i >= 0 {
		ev.Scope = check.Gates[i].Scope
	}
	d.emit(ev)
	call, _ = d.State.Call(ev.Call)
	if check.Refusal != nil {
		d.resolveAll(call.ID, events.Moot)
	}
	d.check(*call, check)
	d.goOnBeside()
	return nil
}

func (d *decision) findApproval(c commands.ResolveApproval) (*Approval, error) {
	open := d.PendingApprovals()
	switch {
	case c.Approval == "" && c.Call != "" && !d.CallIDs.Has(c.Call):
		return nil, refuse(ReasonUnknownCall, "no call %s", c.Call)
	case d.Turn == nil && c.Approval != "" && len(d.Beside) == 0:
		return nil, refuse(ReasonNoApproval, "approval %s is not pending: no turn is open", c.Approval)
	case d.Turn == nil && c.Call != "" && !d.asksBeside(c.Call):
		return nil, refuse(ReasonNoApproval, "an approval for call %s is not pending: its turn is over", c.Call)
	case c.Approval != "":
		return d.approvalWhere(func(a Approval) bool { return a.ID == c.Approval }, "approval "+string(c.Approval))
	case c.Call != "":
		return d.approvalWhere(func(a Approval) bool { return a.CallID == c.Call }, "an approval for call "+string(c.Call))
	case len(open) == 0:
		return nil, refuse(ReasonNoApproval, "no approval is pending")
	case len(open) > 1:
		return nil, refuse(ReasonSeveralPending, "%d approvals are pending; name the call", len(open))
	}
	return d.approvalWhere(func(a Approval) bool { return a.Outcome == "" }, "")
}

// approvalWhere finds the oldest undecided approval that matches, or says what
// became of the one that did.
func (d *decision) approvalWhere(match func(Approval) bool, what string) (*Approval, error) {
	var decided *Approval
	all := d.approvals()
	for i := range all {
		a := &all[i]
		switch {
		case !match(*a):
		case a.Outcome == "":
			return a, nil
		case decided == nil || a.Outcome != events.Moot:
			decided = a
		}
	}
	switch {
	case decided == nil:
		return nil, refuse(ReasonNoApproval, "%s is not pending", what)
	case decided.Outcome == events.Expired:
		return nil, refuse(ReasonExpired, "%s expired", what)
	case decided.By != "":
		return nil, refuse(ReasonAlreadyDecided, "%s was %s by %s", what, decided.Outcome, decided.By)
	}
	return nil, refuse(ReasonAlreadyDecided, "%s was %s", what, decided.Outcome)
}

// expire records that nobody decided in time; that is never a person's denial.
func (d *decision) expire(id content.ApprovalID) {
	for _, a := range slices.Clone(d.approvals()) {
		if a.ID != id || a.Outcome != "" {
			continue
		}
		d.emit(events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: events.Expired, Digest: a.Digest})
		d.resolveAll(a.CallID, events.Moot)
		if call, ok := d.State.Call(a.CallID); ok {
			ttl := a.ExpiresAt.Sub(a.Asked)
			d.emitResult(*call, content.StatusExpired, "", "Approval expired: nobody decided within "+ttl.String(), call.Answered())
		}
	}
}

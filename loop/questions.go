package loop

import (
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// KindChild starts the kind of a question that a sub-agent's session asks.
const KindChild = "subagent."

func (d *decision) preflight(c commands.ReportPreflight) {
	if p, _ := d.where(); p != atPreflight || c.Turn != d.Turn.ID || c.Round != d.Turn.Round {
		return
	}
	d.checks, d.answers = c.Checks, slices.Clone(c.Hooks)
	d.advance()
}

// checkCalls judges the calls of a reply before any of them runs: limits first, then the
// checks of every call in order. It reports whether the session moved; without checks, they
// are owed.
func (d *decision) checkCalls() bool {
	if d.limited(consumed()...) || d.limited(events.LimitToolCalls) {
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
	if len(d.events) > before {
		return true
	}
	// Every call may run, which left no event. So one follows now: a hook's decision about
	// the first call, or its dispatch.
	if h, owed := d.owesHook(pointPreTool, d.Turn.Calls[d.nextCall()].ID); owed {
		return d.useAnswer(h)
	}
	d.dispatchNext()
	return true
}

// check records the outcome of one call's preflight. A call that may simply run leaves no
// trace here; its dispatch does.
func (d *decision) check(c Call, k commands.Check) {
	if r := k.Refusal; r != nil {
		status := content.StatusError
		if r.Status == content.StatusDenied {
			status = content.StatusDenied
		}
		d.answer(c, status, r.Code, r.Message)
		d.warnTool(c.ID, status, r.Message)
		return
	}
	for _, q := range k.Gates {
		d.ask(c, q, k.Digest)
	}
}

// ask records a question about a call, unless it is pending or answered already. One that a
// lasting approval answers is recorded as approved at once.
func (d *decision) ask(c Call, q commands.Gate, digest string) {
	for _, a := range d.approvals() {
		if a.CallID == c.ID && a.RequestKind == q.RequestKind && a.Scope == q.Scope && q.RequestKind != kindRetry && a.covers(q) {
			return
		}
	}
	if now, ok := d.Call(c.ID); ok {
		c.Gates = now.Gates
	}
	a := events.Approval{
		ID:     content.ApprovalID(string(c.Place) + "-g" + strconv.Itoa(c.Gates+1)),
		CallID: c.ID, TaskID: c.Place, Turn: c.Turn, Round: c.Round,
		Tool: c.Name, Input: c.EffectiveInput(), Digest: digest,
		RequestKind: q.RequestKind, Scope: q.Scope, Reason: q.Reason, Summary: q.Summary, Metadata: q.Metadata, Asker: q.Asker,
	}
	if approved, ok := d.preapproved(a); ok {
		d.emit(events.ApprovalRequired{Approval: a}, approved)
		return
	}
	ttl := q.TTL
	if ttl == 0 {
		ttl = d.Config.ApprovalTTL
	}
	if ttl > 0 {
		a.ExpiresAt = d.At.Add(ttl)
	}
	d.emit(events.ApprovalRequired{Approval: a})
}

// covers reports whether the approval makes the same question about the same call
// unnecessary: it is pending, or was approved by someone who may answer q.
func (a Approval) covers(q commands.Gate) bool {
	return a.Outcome == "" || a.Outcome == events.Approved && (!a.Allowed || q.Asker == events.AskedByRules)
}

// lateQuestion handles a question that came up while a call ran.
func (d *decision) lateQuestion(c commands.ReportGate) {
	call, ok := d.CallAt(c.Place)
	if !ok || !call.Running() || call.Attempt != c.Attempt || len(call.Approved) != c.N {
		return
	}
	late := *call
	if d.Closed && late.Answered() {
		reason := string(c.Gate.Reason)
		d.answer(late, content.StatusDenied, reason, content.DenialText(reason+": the session is closed"))
		return
	}
	for _, q := range append([]commands.Gate{c.Gate}, c.Also...) {
		d.ask(late, q, late.Digest)
	}
	d.resumeBackground()
}

// expire records that an approval was not decided in time, which is never a denial.
func (d *decision) expire(id content.ApprovalID) {
	for _, a := range d.approvals() {
		if a.ID != id || a.Outcome != "" {
			continue
		}
		d.emit(events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: events.Expired, Digest: a.Digest})
		d.settle(a.CallID, events.Moot)
		if call, ok := d.Call(a.CallID); ok {
			d.answer(*call, content.StatusExpired, "", "Approval expired: nobody decided within "+a.ExpiresAt.Sub(a.Asked).String())
		}
	}
}

package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// KindChild is the prefix of the kinds of questions that a sub-agent's session asks.
const KindChild = "subagent."

func (d *decision) preflight(c commands.ReportPreflight) {
	if p, _ := d.where(); p != atPreflight || c.Turn != d.Turn.ID || c.Round != d.Turn.Round {
		return
	}
	d.checks, d.answers = c.Checks, slices.Clone(c.Hooks)
	d.advance()
}

// checkCalls judges the calls of a reply before any of them runs: limits first, then each
// call's checks in order. It reports whether the session moved; missing checks are owed.
func (d *decision) checkCalls() bool {
	if d.limited(consumed()...) || d.limited(events.LimitToolCalls) {
		return true
	}
	checks := make([]commands.Check, len(d.Turn.Calls))
	for i, c := range d.Turn.Calls {
		if c.Answered() {
			continue
		}
		j := slices.IndexFunc(d.checks, func(k commands.Check) bool { return k.Place == c.Place })
		if j < 0 {
			return false
		}
		checks[i] = d.checks[j]
	}
	before := len(d.events)
	for i, c := range d.Turn.Calls {
		if !c.Answered() {
			d.check(c, checks[i])
		}
	}
	if len(d.events) > before {
		return true
	}
	// That every call may run is not recorded as an event. So another event must follow now: a hook's
	// decision about the first call, or its dispatch.
	if h := (HookPoint{pointPreTool, d.Turn.Calls[d.nextCall()].ID}); d.owesHook(h) {
		return d.useAnswer(h)
	}
	d.dispatchNext()
	return true
}

// check records the outcome of a preflight. For a call that may run, its dispatch is the only record.
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
	for _, q := range k.Questions {
		d.ask(c, q, k.Digest)
	}
}

// ask records a question about a call, unless it is pending or answered already. If a lasting approval answers it,
// it is recorded as approved at once.
func (d *decision) ask(c Call, q commands.Question, digest string) {
	for _, a := range d.approvals() {
		same := a.CallID == c.ID && a.RequestKind == q.RequestKind && a.Scope == q.Scope && q.RequestKind != KindRetry
		answered := a.Outcome == events.Approved && (!a.Allowed || q.Asker == events.AskedByRules)
		if same && (a.Outcome == "" || answered) {
			return
		}
	}
	if now, ok := d.Call(c.ID); ok {
		c.Questions = now.Questions
	}
	a := events.Approval{
		ID:     content.ApprovalID(string(c.Place) + "-g" + strconv.Itoa(c.Questions+1)),
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

// lateQuestion handles a question that a call's runner asked.
func (d *decision) lateQuestion(c commands.ReportQuestion) {
	call, ok := d.CallAt(c.Place)
	if !ok || !call.Running() || call.Attempt != c.Attempt || len(call.Approved) != c.N {
		return
	}
	late := *call
	if d.Closed && late.Answered() {
		reason := string(c.Question.Reason)
		d.answer(late, content.StatusDenied, reason, content.DenialText(reason+": the session is closed"))
		return
	}
	asked := append([]commands.Question{c.Question}, c.Also...)
	if wrong := late.wrongQuestions(asked); wrong != "" {
		d.resolveQuestions(late.ID, events.Moot)
		d.answer(late, content.StatusError, codeBadQuestion, "Tool failed: "+wrong)
		d.warnTool(late.ID, content.StatusError, wrong)
		return
	}
	for _, q := range asked {
		q.Asker = "" // only the host knows that its rules asked
		d.ask(late, q, late.Digest)
	}
	d.resumeBackground()
}

// wrongQuestions says what is wrong with a worker's questions, or returns "". If a worker could ask a kind of question
// that only sessions ask, its approval would decide something other than the call. The number of questions is
// limited because each approval records the call's arguments.
func (c *Call) wrongQuestions(asked []commands.Question) string {
	for _, q := range asked {
		if q.RequestKind == KindVerifier || q.RequestKind == KindRetry {
			return "it asked a question of the kind " + q.RequestKind + ", which only sessions ask"
		}
	}
	if n := c.Questions + len(asked); n > maxQuestions {
		return fmt.Sprintf("it asked %d questions, at most %d", n, maxQuestions)
	}
	return ""
}

// expire records that an approval was not decided in time. That is not a denial.
func (d *decision) expire(id content.ApprovalID) {
	for _, a := range d.approvals() {
		if a.ID != id || a.Outcome != "" {
			continue
		}
		d.emit(events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: events.Expired, Digest: a.Digest})
		d.resolveQuestions(a.CallID, events.Moot)
		if call, ok := d.Call(a.CallID); ok {
			d.answer(*call, content.StatusExpired, "", "Approval expired: no decision within "+a.ExpiresAt.Sub(a.Asked).String())
		}
	}
}

// Grant is a question that a person approved for the rest of the session. It answers only the same question about
// the same tool: kind and scope must be equal.
type Grant struct {
	Approval content.ApprovalID // the one that was approved
	By, User string
	Tool     string
	Key      content.QuestionKey
	Turn     content.TurnID // of the call in question
}

// Allowance lists tools that may run although the session's rules ask.
type Allowance struct {
	Grant    content.ApprovalID
	By, User string
	Tools    []string // names, in which * matches any characters
}

// preapproved returns the resolution of a question that need not be asked: a grant answers it, or an allowance if
// only the session's rules ask. If the turn's own rules ask, only grants from the same turn count.
func (s *State) preapproved(a events.Approval) (events.ApprovalResolved, bool) {
	ev := events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: events.Approved, Digest: a.Digest}
	for _, g := range s.Grants {
		same := g.Tool == a.Tool && g.Key == Approval{Approval: a}.key() && a.RequestKind != KindRetry
		if same && (a.Asker != events.AskedByTurn || g.Turn == a.Turn) {
			ev.By, ev.User, ev.Grant = g.By, g.User, g.Approval
			return ev, true
		}
	}
	for _, w := range s.Allowed {
		if a.Asker == events.AskedByRules && slices.ContainsFunc(w.Tools, func(p string) bool { return content.Matches(p, a.Tool) }) {
			ev.By, ev.User, ev.Grant = w.By, w.User, w.Grant
			return ev, true
		}
	}
	return ev, false
}

// approvedFor lists the answered questions about a call, which its runner need not ask.
func (s *State) approvedFor(c Call) []content.QuestionKey {
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
	var fresh []string
	for _, p := range c.Tools {
		if err := d.grantable(p); err != nil {
			return err
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
	d.emit(events.ToolsAllowed{Grant: grant, Tools: fresh, By: cmp.Or(c.By, d.env.By), User: d.env.User})
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
		return commands.Refuse(commands.ReasonExpired, "the approval for call %s expired", a.CallID) // its timer records it
	case c.Always && a.RequestKind == KindRetry:
		return commands.Refuse(commands.ReasonInvalidInput, "a lost call is decided on each time: leave out always")
	}
	ev := events.ApprovalResolved{
		Approval: a.ID, Call: a.CallID, Outcome: events.Approved, By: cmp.Or(c.By, d.env.By), User: d.env.User, Reason: c.Reason,
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

// deny denies one question and with it the call, which makes the other questions about it moot.
func (d *decision) deny(ev events.ApprovalResolved) {
	ev.Outcome = events.Denied
	d.emit(ev)
	d.resolveQuestions(ev.Call, events.Moot)
	if call, ok := d.Call(ev.Call); ok {
		text := content.DenialText(cmp.Or(ev.Reason, "denied by approver"))
		if call.Lost > 0 {
			text += textNotRetry
		}
		d.answer(*call, content.StatusDenied, codeDeniedByPerson, text)
	}
}

// resolvePatched approves a question and gives the call new arguments, which the host has checked. The approval
// covers the question's scope for the new arguments. New questions are asked; an approved one is not asked again.
func (d *decision) resolvePatched(ev events.ApprovalResolved, kind string, c commands.ResolveApproval) error {
	call, _ := d.Call(ev.Call)
	i := slices.IndexFunc(d.env.Checks, func(k commands.Check) bool { return k.Place == call.Place })
	if i < 0 {
		return commands.Refuse(commands.ReasonInvalidInput, "the patched input was not checked against the tool's schema")
	}
	check := d.env.Checks[i]
	if r := check.Refusal; r != nil && r.Status == content.StatusError {
		return commands.Refuse(commands.ReasonInvalidInput, "%s", r.Message)
	}
	ev.Input, ev.Digest = c.Input, check.Digest
	if i := slices.IndexFunc(check.Questions, func(q commands.Question) bool { return q.RequestKind == kind }); i >= 0 {
		ev.Scope = check.Questions[i].Scope
	}
	d.emit(ev)
	if check.Refusal != nil {
		d.resolveQuestions(ev.Call, events.Moot)
	}
	call, _ = d.Call(ev.Call)
	d.check(*call, check)
	d.resumeBackground()
	return nil
}

// findApproval finds the oldest pending approval that the command names. Otherwise the error says why there is none.
func (d *decision) findApproval(c commands.ResolveApproval) (a Approval, err error) {
	open := d.PendingApprovals()
	what, match := "", func(a Approval) bool { return a.Outcome == "" }
	switch {
	case c.Approval == "" && c.Call != "" && !d.CallIDs.Has(c.Call) &&
		!slices.ContainsFunc(open, func(a events.Approval) bool { return a.CallID == c.Call }): // a verifier's
		return a, commands.Refuse(commands.ReasonUnknownCall, "no call %s", c.Call)
	case d.Turn == nil && c.Approval != "" && len(d.BackgroundApprovals) == 0:
		return a, commands.Refuse(commands.ReasonNoApproval, "approval %s is not pending: no turn is open", c.Approval)
	case d.Turn == nil && c.Call != "" && !d.asksOutsideTurn(c.Call):
		return a, commands.Refuse(commands.ReasonNoApproval, "an approval for call %s is not pending: its turn is over", c.Call)
	case c.Approval != "":
		what, match = "approval "+string(c.Approval), func(a Approval) bool { return a.ID == c.Approval }
	case c.Call != "":
		what, match = "an approval for call "+string(c.Call), func(a Approval) bool { return a.CallID == c.Call }
	case len(open) == 0:
		return a, commands.Refuse(commands.ReasonNoApproval, "no approval is pending")
	case len(open) > 1:
		return a, commands.Refuse(commands.ReasonSeveralPending, "%d approvals are pending; name the call", len(open))
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
		return a, commands.Refuse(commands.ReasonNoApproval, "%s is not pending", what)
	case a.Outcome == events.Expired:
		return a, commands.Refuse(commands.ReasonExpired, "%s expired", what)
	case a.By+a.User != "":
		return a, commands.Refuse(commands.ReasonAlreadyDecided, "%s was %s by %s", what, a.Outcome, content.Sender(a.User, a.By))
	}
	return a, commands.Refuse(commands.ReasonAlreadyDecided, "%s was %s", what, a.Outcome)
}

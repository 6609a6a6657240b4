package loop

import (
	"cmp"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// dispatchNext starts the next call that may run. If there is none, all remaining calls were refused, so the
// wait is over and the round continues.
func (d *decision) dispatchNext() {
	i := d.nextCall()
	if i < 0 {
		d.Turn.Held = false
		return
	}
	c := d.Turn.Calls[i]
	if !d.mayStart(c) {
		if !d.undecided(c.ID) { // it is denied, and the rest needs no second Continue
			d.dispatchNext()
		}
		return
	}
	ev := d.dispatched(c)
	if c.Routing.Route == content.DetachSoon {
		ev.DetachAt = d.At.Add(c.Routing.DetachAfter)
	}
	d.emit(ev)
	if c.Routing.Route == content.Background {
		d.emit(events.ToolDetached{Call: c.ID, Placeholder: placeholder(c.Name)})
	}
}

// dispatched returns the event for a call that starts, or starts again.
func (d *decision) dispatched(c Call) events.ToolDispatched {
	ev := events.ToolDispatched{
		Call: c.ID, Place: c.Place, Attempt: c.Lost + 1, Route: c.Routing.Route, Queue: c.Routing.Queue,
		Digest: c.Digest, Input: c.Input, Approved: d.approvedFor(c), Because: d.because(c),
	}
	if c.Routing.Timeout > 0 {
		ev.Deadline = d.At.Add(c.Routing.Timeout)
	}
	return ev
}

// resumeBackground dispatches held calls in the background that have all their approvals.
func (d *decision) resumeBackground() {
	for _, c := range d.callsWhere(Call.InBackground) {
		if len(c.Asked) > 0 && !d.undecided(c.ID) && d.mayStart(c) {
			d.emit(d.dispatched(c))
		}
	}
}

// result handles the outcome of a call: its first one, or a late one that still counts.
func (d *decision) result(c commands.ReportResult) {
	call, ok := d.CallAt(c.Place)
	if !ok || call.Attempt == 0 || c.Queue != call.Routing.Queue || call.Answered() && !call.awaited() {
		d.wasted(c)
		return
	}
	out := c.Outcome
	r := out.Result.Reported(call.ID, call.Name)
	switch {
	case c.Attempt < call.Attempt && (r.Status == content.StatusUnknown || r.Status == content.StatusCancelled):
		return // an abandoned attempt reports that it stopped
	case r.Status == content.StatusUnknown && call.Status == r.Status:
		if call.Running() {
			d.loseAttempt(*call, r.Text(), true)
		}
		return // the outcome was unknown before
	}
	ev := events.ToolResultReceived{
		Turn: call.Turn, Round: call.Round, Result: r, Attempt: call.Attempt,
		Duration: out.Duration, Late: call.Answered(), Auth: out.Auth, Signature: c.Signature, SignedAt: c.SignedAt,
	}
	if c.Attempt > 0 {
		ev.Attempt = min(c.Attempt, call.Attempt)
	}
	if call.Routing.Writes && r.Status == content.StatusOK {
		ev.ChangedPaths = out.ChangedPaths
	}
	d.answers = slices.Clone(c.Hooks)
	bill, used := billed(*call, c)
	d.resolveQuestions(r.CallID, events.Moot) // an earlier attempt answered what a later one asked about
	d.emit(ev)
	if used {
		d.emit(bill)
	}
	d.warnTool(r.CallID, r.Status, r.Text())
}

// wasted records the usage of a call that was answered before it reported. Its outcome no longer matters.
func (d *decision) wasted(c commands.ReportResult) {
	call, ok := d.StoppingCall(c.Place)
	if !ok || c.Attempt != call.Attempt || c.Queue != call.Routing.Queue {
		return
	}
	if bill, ok := billed(call, c); ok {
		bill.Call = call.ID
		d.emit(bill)
	}
}

// billed returns the event for the usage of others that worked for a call, such as sub-agents.
func billed(c Call, r commands.ReportResult) (ev events.UsageUpdated, ok bool) {
	out := r.Outcome
	ev = events.UsageUpdated{
		Turn: c.Turn, Round: c.Round, Usage: out.Usage, Source: "child",
		Requests: out.Counts.Requests, ToolCalls: out.Counts.ToolCalls,
	}
	return ev, ev.Usage != (content.Usage{}) || ev.Requests != 0 || ev.ToolCalls != 0
}

// warnTool records that the model received a tool's error.
func (d *decision) warnTool(id content.CallID, s content.Status, text string) {
	if s == content.StatusError {
		d.warn("tool_error", content.Clip(text, maxWarning), id)
	}
}

func (d *decision) attemptLost(c commands.ReportAttemptLost) {
	call, ok := d.CallAt(c.Place)
	if ok && call.Running() && call.Attempt == c.Attempt && c.Queue == call.Routing.Queue {
		d.loseAttempt(*call, c.Reason, !c.Last)
	}
}

// loseAttempt records that a call's runner is lost. Depending on the tool's declared effects, another attempt
// follows or the outcome is unknown.
func (d *decision) loseAttempt(c Call, reason string, again bool) {
	d.emit(events.ToolAttemptLost{Call: c.ID, Attempt: c.Attempt, Reason: reason})
	attempts := cmp.Or(d.Config.Retry.ToolAttempts, defaultToolAttempts)
	switch {
	case c.Retried(): // its outcome is as unknown as before
	case again && !d.Closed && c.Routing.Effects.Retryable() && c.Attempt < attempts:
		if d.mayStart(c) {
			next := d.dispatched(c)
			next.Attempt, next.DetachAt = c.Attempt+1, c.DetachAt
			next.Because = append(next.Because, events.Ground{By: events.ByEffects, Name: string(c.Routing.Effects)})
			d.emit(next)
		}
	case !d.Closed && d.Config.Retry.AskLost:
		d.ask(c, commands.Question{
			RequestKind: KindRetry, Reason: content.EscalatedRisk,
			Summary: "run " + c.Name + " again, although its first run was lost and may have taken effect",
		}, c.Digest)
	default:
		d.answer(c, content.StatusUnknown, "", textUnknown)
	}
}

func (d *decision) detach(c commands.DetachCall) error {
	call, ok := d.Call(c.Call)
	switch {
	case !ok && d.CallIDs.Has(c.Call):
		return commands.Refuse(commands.ReasonNotRunning, "call %s is over", c.Call)
	case !ok:
		return commands.Refuse(commands.ReasonUnknownCall, "no call %s", c.Call)
	case call.asksOutsideTurn():
		return commands.Refuse(commands.ReasonAlreadyBackground, "call %s is in the background already", c.Call)
	case !call.Running():
		return commands.Refuse(commands.ReasonNotRunning, "call %s is not running", c.Call)
	}
	d.emit(events.ToolDetached{Call: call.ID, Placeholder: placeholder(call.Name), By: d.env.By, User: d.env.User})
	return nil
}

func (d *decision) cancelCall(id content.CallID, reason string) error {
	call, ok := d.Call(id)
	switch {
	case !ok && d.CallIDs.Has(id):
		return commands.Refuse(commands.ReasonAlreadyFinished, "call %s is over", id)
	case !ok:
		return commands.Refuse(commands.ReasonUnknownCall, "no call %s", id)
	case call.Status != "" && !call.Retried():
		return commands.Refuse(commands.ReasonAlreadyFinished, "call %s is %s", id, call.Status)
	}
	d.emit(events.CancelRequested{Scope: commands.ScopeCall, Target: id, Reason: reason, By: d.env.By, User: d.env.User})
	d.callCancelled(*call)
	return nil
}

func (d *decision) callCancelled(c Call) {
	d.resolveQuestions(c.ID, events.ApprovalCancelled)
	d.answer(c, content.StatusCancelled, "", textCancelled)
}

// settleDead applies a decision about a dead letter. A retry runs in the background: its outcome arrives as a
// notification. If its worker is lost again, the call becomes a dead letter again.
func (d *decision) settleDead(c commands.SettleDeadLetter) error {
	call, ok := d.Call(c.Call)
	switch {
	case !ok && !d.CallIDs.Has(c.Call):
		return commands.Refuse(commands.ReasonUnknownCall, "no call %s", c.Call)
	case ok && call.Retried():
		return commands.Refuse(commands.ReasonAlreadyDecided, "call %s runs again already", c.Call)
	case ok && call.Letter == LetterDropped:
		return commands.Refuse(commands.ReasonAlreadyDecided, "call %s was dropped", c.Call)
	case !ok || !call.DeadLetter():
		return commands.Refuse(commands.ReasonNotDead, "call %s is no dead letter", c.Call)
	case c.Retry && !c.MayRepeat && !call.Routing.Effects.Retryable():
		return commands.Refuse(commands.ReasonMayRepeat, "call %s of %s may have taken effect, and running it again may do so twice", c.Call, call.Name)
	case c.Retry && d.cancelling() && call.Turn == d.Turn.ID:
		return commands.Refuse(commands.ReasonBusy, "the turn of call %s is being cancelled", c.Call)
	}
	ev := events.DeadLetterSettled{Call: c.Call, Outcome: events.DeadDropped, By: cmp.Or(c.By, d.env.By), User: d.env.User, Reason: c.Reason}
	if !c.Retry {
		d.emit(ev)
		return nil
	}
	if action, rule := d.Policy.Ruling(call.Name, call.Routing.Queue, call.Routing.DeclaredEffects()); action == events.RuleDeny {
		return commands.Refuse(commands.ReasonPolicy, "%s", policyDenies(rule, call.Name))
	}
	ev.Outcome = events.DeadRetried
	again := d.dispatched(*call)
	again.Route = content.Background
	again.Because = append(again.Because, events.Ground{By: events.ByRetry})
	d.emit(ev, again)
	return nil
}

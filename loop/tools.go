package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// dispatch starts the next call that may run.
func (d *decision) dispatch() bool {
	i := d.nextCall()
	if i < 0 {
		// Everything left was refused: the wait is passed, the round goes on.
		d.Turn.Held = false
		return true
	}
	d.dispatchCall(i)
	return true
}

// dispatchCall records that a call may start now.
func (d *decision) dispatchCall(i int) {
	c := d.Turn.Calls[i]
	ev := d.dispatched(c)
	if c.Routing.Route == content.DetachSoon {
		ev.DetachAt = d.At.Add(c.Routing.DetachAfter)
	}
	d.emit(ev)
	if c.Routing.Route == content.Background {
		d.emit(events.ToolDetached{Call: c.ID, Placeholder: placeholder(c.Name)})
	}
}

// dispatched is the record of a call that starts, or starts again.
func (d *decision) dispatched(c Call) events.ToolDispatched {
	return events.ToolDispatched{
		Call: c.ID, Place: c.Place, Attempt: c.Lost + 1, Route: c.Routing.Route, Queue: c.Routing.Queue,
		Digest: c.Digest, Input: c.Input, Approved: d.approvedFor(c), Deadline: d.newDeadline(c),
	}
}

// behind lists the calls in the background, or once more under way, that are not over,
// those of the open round too.
func (s *State) behind() []Call {
	all := s.Background
	if s.Turn != nil {
		all = slices.Concat(all, s.Turn.Calls)
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Call) bool { return !c.InBackground() })
}

// result takes in a call's outcome: the first for an open call, or the first late
// one for a call whose answer left it open.
func (d *decision) result(c commands.ReportResult) {
	call, ok := d.CallAt(c.Place)
	if !ok || call.Attempt == 0 || c.Queue != call.Routing.Queue {
		d.spentInVain(c)
		return
	}
	late := call.Answered()
	if late && !call.awaited() {
		d.spentInVain(c)
		return
	}
	out := c.Outcome
	r := reported(*call, out.Result)
	if c.Attempt < call.Attempt && (r.Status == content.StatusUnknown || r.Status == content.StatusCancelled) {
		return // an attempt that was given up says that it gave up
	}
	if r.Status == content.StatusUnknown && call.Status == r.Status {
		if call.Running() {
			d.loseAttempt(call, r.Text())
		}
		return // that much was known
	}
	ev := events.ToolResultReceived{
		Turn: call.Turn, Round: call.Round, Result: r, Attempt: call.Attempt,
		Duration: out.Duration, Late: late, Auth: out.Auth,
	}
	if c.Attempt > 0 {
		ev.Attempt = min(c.Attempt, call.Attempt)
	}
	if call.Routing.Writes && r.Status == content.StatusOK {
		ev.ChangedPaths = out.ChangedPaths
	}
	d.answers = slices.Clone(c.Hooks)
	bill, used := billed(*call, c)
	d.resolveAll(r.CallID, events.Moot) // a gate came up, and an attempt before it had the answer
	d.emit(ev)
	if used {
		d.emit(bill)
	}
	d.warnTool(r.CallID, r.Status, r.Text())
}

// spentInVain records what a call had used when it was answered before it said so: one
// that was stopped, or one that waited for an approval. Its outcome interests nobody.
func (d *decision) spentInVain(c commands.ReportResult) {
	call, ok := d.State.StoppingCall(c.Place)
	if !ok || c.Attempt != call.Attempt || c.Queue != call.Routing.Queue {
		return
	}
	if bill, ok := billed(call, c); ok {
		bill.Call = call.ID
		d.emit(bill)
	}
}

// billed is the record of what others used who worked for a call.
func billed(c Call, r commands.ReportResult) (ev events.UsageUpdated, ok bool) {
	out := r.Outcome
	ev = events.UsageUpdated{
		Turn: c.Turn, Round: c.Round, Usage: out.Usage, Source: "child",
		Requests: out.Counts.Requests, ToolCalls: out.Counts.ToolCalls,
	}
	return ev, ev.Usage != (content.Usage{}) || ev.Requests != 0 || ev.ToolCalls != 0
}

// reported is a worker's result as it is recorded. Workers know the statuses of
// what they run, and two of the reserved keys are theirs to set.
func reported(c Call, r content.ToolResult) content.ToolResult {
	switch r.Status {
	case content.StatusOK, content.StatusError, content.StatusDenied, content.StatusCancelled, content.StatusUnknown:
	case content.StatusExpired, content.StatusSkipped, content.StatusLimit, content.StatusTerminated, content.StatusNotExecuted:
		r.Status = content.StatusError
	default:
		r.Status = content.StatusError
	}
	r.CallID, r.Name, r.IsError = c.ID, c.Name, r.Status.IsError()
	md := r.Metadata.WithoutReserved()
	for _, key := range []string{content.MetaTruncated, content.MetaAuthRequest} {
		if v, ok := r.Metadata.Get(key); ok {
			md = md.With(key, v)
		}
	}
	r.Metadata = md
	return r
}

// warnTool records a failing tool that was reported to the model.
func (d *decision) warnTool(id content.CallID, s content.Status, text string) {
	if s == content.StatusError {
		d.warn("tool_error", clip(text, maxWarning), id)
	}
}

const maxWarning = 500

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

func (d *decision) attemptLost(c commands.ReportAttemptLost) {
	call, ok := d.CallAt(c.Place)
	if !ok || !call.Running() || call.Attempt != c.Attempt || c.Queue != call.Routing.Queue {
		return
	}
	d.loseAttempt(call, c.Reason)
}

// loseAttempt records that whoever ran a call is gone, and does what the tool's
// declared effects allow: another attempt, or an unknown outcome.
func (d *decision) loseAttempt(c *Call, reason string) {
	lost := *c
	d.emit(events.ToolAttemptLost{Call: lost.ID, Attempt: lost.Attempt, Reason: reason})
	if lost.Retried() {
		return // its outcome is as unknown as before
	}
	if !d.Closed && lost.Routing.Effects.Retryable() && lost.Attempt < orDefault(d.Config.Retry.ToolAttempts, defaultToolAttempts) {
		again := d.dispatched(lost)
		again.Attempt, again.DetachAt = lost.Attempt+1, lost.DetachAt
		d.emit(again)
		return
	}
	if d.Config.Retry.AskLost && !d.Closed {
		d.ask(lost, commands.Gate{
			RequestKind: kindRetry, Reason: content.EscalatedRisk,
			Summary: "run " + lost.Name + " again, although its first run was lost and may have taken effect",
		}, lost.Digest)
		return
	}
	d.emitResult(lost, content.StatusUnknown, "", textUnknown, lost.Answered())
}

func (d *decision) newDeadline(c Call) content.Time {
	if c.Routing.Timeout <= 0 {
		return 0
	}
	return d.At.Add(c.Routing.Timeout)
}

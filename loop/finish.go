package loop

import (
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Texts of the results that the core itself gives.
const (
	textCancelled      = "Cancelled before it reported a result"
	textUnknown        = "Outcome unknown: its worker was lost; it may or may not have taken effect"
	codeRetry          = "model_retry"
	codeAuth           = "auth_required"
	codeTimeout        = "timeout"
	codeDeniedByPerson = "denied_by_person"
	codeToolFailed     = "tool_failed"
	codeMutatorFailed  = "mutator_failed"

	kindRetry    = "tool.retry" // the gate of a lost call; each loss asks anew
	textNotRetry = " (its first run was lost and may have taken effect)"
)

// KindChild begins the kind of a question that the session of a sub-agent asks.
const KindChild = "subagent."

func placeholder(tool string) string {
	return "Tool " + tool + " is now running in the background. The result will be delivered when it completes."
}

// ending says how a turn ends before its time.
type ending struct {
	reason  content.FinishReason
	failure *events.RunFailed
	hook    *events.HookDecided
}

// finish is the only early end of a turn: approvals are settled, calls answered,
// a task closed, the failure named, the turn finished.
func (d *decision) finish(e ending) {
	t := d.Turn
	d.stage = d.interruptStage()
	if m := t.Mut; m.Open {
		d.emit(events.MutationFinished{Turn: t.ID, Mutator: m.current(), Point: m.Point, Error: "the turn ended: " + string(e.reason)})
	}
	d.resolveAll("", events.ApprovalCancelled)
	status, text := d.closingResult(e)
	for _, c := range t.Calls {
		if !c.Answered() {
			d.emitResult(c, status, "", text, false)
		}
	}
	d.closeTask(e.reason)
	if e.failure != nil {
		d.emit(*e.failure)
	}
	md := content.Metadata(nil)
	switch {
	case e.reason == content.Cancelled && t.Cancel != nil:
		md = md.With(content.MetaInterrupted, true).
			With(content.MetaInterruptReason, t.Cancel.Reason).
			With(content.MetaInterruptStage, d.stage)
	case e.reason == content.Limit && t.Limit != nil:
		md = md.With(content.MetaLimitKind, t.Limit.Kind).
			With(content.MetaLimit, t.Limit.Limit).
			With(content.MetaLimitUsed, t.Limit.Used)
	case e.hook != nil:
		md = md.With(content.MetaHook, e.hook.Hook).
			With(content.MetaHookPoint, e.hook.Point).
			With(content.MetaHookReason, e.hook.Reason)
	}
	d.stage = ""
	d.finished(e.reason, md, e.failure)
}

func (d *decision) closingResult(e ending) (content.Status, string) {
	switch e.reason {
	case content.Cancelled:
		return content.StatusCancelled, textCancelled
	case content.Limit:
		return content.StatusLimit, "Not run: " + LimitText(*d.Turn.Limit)
	case content.Terminated:
		return content.StatusTerminated, fmt.Sprintf("Not run: stopped by %s: %s", e.hook.Hook, e.hook.Reason)
	case content.Completed, content.ToolCalls, content.MaxTokens, content.Blocked, content.Compaction, content.Errored, content.Other:
	}
	return content.StatusNotExecuted, "Not run: the reply ended with " + string(e.reason)
}

// interruptStage says what a cancel cut off.
func (d *decision) interruptStage() string {
	t := d.Turn
	switch {
	case t.Stage == StageModel:
		return "model"
	case t.Stage == StageVerify:
		return "verify"
	case t.Stage == StageBoundary:
		return "yield"
	case t.undecided(""):
		return "approval"
	case t.Stage == StageReplied && t.Reply == content.ToolCalls:
		return "tool"
	}
	return "model"
}

// turnEnd ends a turn in its own time; a task goes to its gate first.
func (d *decision) turnEnd(reason content.FinishReason) {
	if d.gateTask(reason) {
		return
	}
	d.finished(reason, nil, nil)
}

func (d *decision) finished(reason content.FinishReason, md content.Metadata, failure *events.RunFailed) {
	t := d.Turn
	ev := events.TurnFinished{Turn: t.ID, FinishReason: reason, Rounds: t.Round, Usage: t.Used.Usage, Metadata: md}
	if failure != nil {
		ev.Error = failure.Message
	}
	d.emit(ev)
}

// resolveAll settles the undecided approvals of a call, or all of the turn.
func (d *decision) resolveAll(call content.CallID, o events.Outcome) {
	for _, a := range slices.Clone(d.approvals()) {
		if a.Outcome == "" && (a.CallID == call || call == "" && !d.asksBeside(a.CallID)) {
			d.emit(events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: o, Digest: a.Digest})
		}
	}
}

// emitResult answers a call with a result of the core's own. It comes from no
// attempt: the one that is out, if any, still runs.
func (d *decision) emitResult(c Call, s content.Status, code, text string, late bool) {
	d.emit(events.ToolResultReceived{Turn: c.Turn, Round: c.Round, Result: d.newResult(c, s, code, text), Late: late})
}

func (d *decision) newResult(c Call, s content.Status, code, text string) content.ToolResult {
	r := content.NewResult(c.ID, c.Name, s, text)
	r.Code = code
	if s == content.StatusCancelled && d.stage != "" {
		r.Metadata = r.Metadata.
			With(content.MetaInterrupted, true).
			With(content.MetaInterruptReason, d.Turn.Cancel.Reason).
			With(content.MetaInterruptStage, d.stage)
	}
	return r
}

// failTurn ends a turn whose tool failed, where the session says that it must.
func (d *decision) failTurn() {
	for _, c := range d.Turn.Calls {
		if failsRun(c) {
			d.finish(ending{reason: content.Errored, failure: &events.RunFailed{
				Turn: d.Turn.ID, Code: codeToolFailed, Message: c.failed(),
			}})
			return
		}
	}
}

// failed says what came of a call that fails its turn.
func (c Call) failed() string { return c.Name + " (" + string(c.ID) + "): " + c.Result.Text() }

package loop

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Texts and codes of the core's own results and failures.
const (
	textCancelled = "Cancelled before it reported a result"
	textUnknown   = "Outcome unknown: its worker was lost; it may or may not have taken effect"
	textNotRetry  = " (its first run was lost and may have taken effect)"

	codeRetry          = "model_retry"
	codeBadQuestion    = "bad_question"
	codeAuth           = "auth_required"
	codeTimeout        = "timeout"
	codeDeniedByPerson = "denied_by_person"
	codeRule           = "rule_denied"
	codeToolFailed     = "tool_failed"
	codeMutatorFailed  = "mutator_failed"
)

func placeholder(tool string) string {
	return "Tool " + tool + " is now running in the background. The result will be delivered when it completes."
}

// actOnReply handles a reply that runs no tools: a compaction, an invalid answer, or the end.
func (d *decision) actOnReply() {
	t := d.Turn
	if d.cancelled() || d.limited(consumed()...) {
		return
	}
	for _, c := range t.Calls {
		if !c.Answered() {
			d.answer(c, content.StatusNotExecuted, "", "Not run: the reply ended with "+string(t.Reply))
		}
	}
	switch {
	case t.Reply == content.Compaction:
		d.finishRound()
	case t.Reply == content.ToolCalls:
		d.warn("empty_tool_call", "the reply ended with tool_call but holds no call", "")
		d.endTurn(content.Completed)
	case t.Invalid != "":
		d.repair()
	default:
		d.endTurn(t.Reply)
	}
}

// repair asks the model to correct an invalid answer, or ends the turn.
func (d *decision) repair() {
	t := d.Turn
	allowed := defaultRepairs
	if o := d.Config.Output; o != nil && o.Repairs != 0 {
		allowed = o.Repairs
	}
	if t.Repairs >= allowed {
		d.fail("invalid_output", "", t.Invalid)
		return
	}
	text := "The answer does not fit the required schema. Answer again, with nothing but JSON that does:\n" + t.Invalid
	d.finishRound()
	d.emit(events.InputAccepted{Turn: t.ID, Items: []content.Item{content.UserText(text)}, Origin: events.FromSchema})
	d.steer()
}

// endTurn ends a turn that is done. A task's work goes to its verifier first.
func (d *decision) endTurn(reason content.FinishReason) {
	if !d.verify(reason) {
		d.finished(ending{reason: reason})
	}
}

// ending says why a turn ends early.
type ending struct {
	reason   content.FinishReason
	failure  *events.RunFailed
	hook     *events.HookDecided
	metadata content.Metadata
}

// cancelled ends a turn that is being cancelled.
func (d *decision) cancelled() bool {
	if !d.cancelling() {
		return false
	}
	d.finish(ending{reason: content.Cancelled})
	return true
}

// fail ends a turn with an error.
func (d *decision) fail(code string, class content.ErrorClass, message string) {
	d.finish(ending{reason: content.Errored, failure: &events.RunFailed{
		Turn: d.Turn.ID, Code: code, Class: class, Message: message,
	}})
}

// finish ends a turn early; nothing else does. It resolves the questions, answers the calls, closes the task,
// records the failure and finishes the turn.
func (d *decision) finish(e ending) {
	t := d.Turn
	if m := t.Mut; m.Open {
		d.emit(events.MutationFinished{Turn: t.ID, Mutator: m.current(), Point: m.Point, Error: "the turn ended: " + string(e.reason)})
	}
	status, text := content.StatusNotExecuted, "Not run: the reply ended with "+string(e.reason)
	switch {
	case e.reason == content.Cancelled:
		d.stage = d.interrupted()
		status, text = content.StatusCancelled, textCancelled
		e.metadata = d.interruption(nil)
	case e.reason == content.Limit:
		status, text = content.StatusLimit, "Not run: "+t.Limit.Text()
		e.metadata = e.metadata.With(content.MetaLimitKind, t.Limit.Kind).
			With(content.MetaLimit, t.Limit.Limit).
			With(content.MetaLimitUsed, t.Limit.Used)
	case e.hook != nil:
		status, text = content.StatusTerminated, "Not run: stopped by "+e.hook.Hook+": "+e.hook.Reason
		e.metadata = e.metadata.With(content.MetaHook, e.hook.Hook).
			With(content.MetaHookPoint, e.hook.Point).
			With(content.MetaHookReason, e.hook.Reason)
	}
	d.resolveQuestions("", events.ApprovalCancelled)
	for _, c := range t.Calls {
		if !c.Answered() {
			d.answer(c, status, "", text)
		}
	}
	d.stage = ""
	d.closeTask(e.reason)
	if e.failure != nil {
		d.emit(*e.failure)
	}
	d.finished(e)
}

// interrupted says what a cancel interrupts.
func (d *decision) interrupted() string {
	t := d.Turn
	switch {
	case t.Stage == StageModel:
		return "model"
	case t.Stage == StageVerify:
		return "verify"
	case t.Stage == StageBoundary:
		return "yield"
	case undecided(t.Approvals, ""):
		return "approval"
	case t.Stage == StageReplied && t.Reply == content.ToolCalls:
		return "tool"
	}
	return "model"
}

// interruption adds to md what the cancel interrupted, and why.
func (d *decision) interruption(md content.Metadata) content.Metadata {
	return md.With(content.MetaInterrupted, true).
		With(content.MetaInterruptReason, d.Turn.Cancel.Reason).
		With(content.MetaInterruptStage, d.stage)
}

func (d *decision) finished(e ending) {
	t := d.Turn
	ev := events.TurnFinished{Turn: t.ID, FinishReason: e.reason, Rounds: t.Round, Usage: t.Used.Usage, Metadata: e.metadata}
	if e.failure != nil {
		ev.Error = e.failure.Message
	}
	d.emit(ev)
}

// resolveQuestions resolves the pending questions about a call, or all of the turn's if call is empty.
func (d *decision) resolveQuestions(call content.CallID, o events.Outcome) {
	for _, a := range d.approvals() {
		if a.Outcome == "" && (a.CallID == call || call == "" && !d.asksOutsideTurn(a.CallID)) {
			d.emit(events.ApprovalResolved{Approval: a.ID, Call: a.CallID, Outcome: o, Digest: a.Digest})
		}
	}
}

// answer records a result that the core itself gives. It does not stop a running attempt.
func (d *decision) answer(c Call, s content.Status, code, text string) {
	r := content.NewResult(c.ID, c.Name, s, text)
	r.Code = code
	if s == content.StatusCancelled && d.stage != "" {
		r.Metadata = d.interruption(nil)
	}
	d.emit(events.ToolResultReceived{Turn: c.Turn, Round: c.Round, Result: r, Late: c.Answered()})
}

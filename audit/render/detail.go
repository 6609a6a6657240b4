package render

import (
	"cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// detail returns the content of an event in one line, without its kind.
func (s Style) detail(ev events.Event) string {
	return cmp.Or(s.ofSession(ev), s.ofTurn(ev), s.ofModel(ev), s.ofCall(ev), s.ofTask(ev))
}

// ofSession is detail for events about the session itself, its hosts and its input.
func (s Style) ofSession(ev any) string {
	switch ev := ev.(type) {
	case events.DriverClaimed:
		return s.list("epoch", ev.Epoch, "node", ev.Node, "restored from backup", restoredFrom(ev.Restored), "moved here from", movedFrom(ev.MovedFrom), "lost", ev.Lost, "retried by", content.Sender(ev.User, ev.RetriedBy), "checked its entry", ev.Checked)
	case events.Parked:
		return s.list("", is(ev.Timer, "with a timer"), "waits for", count(ev.Calls, "call"))
	case events.SnapshotTaken:
		return s.list("of the state before, format", ev.Format, "digest", ev.Digest)
	case events.CommandSigned:
		return s.list("", ev.Command, "key", ev.Signature.Key, "", is(len(ev.Schedule) > 0, "with its schedule"))
	case events.RunStarted:
		return s.list("", s.config(ev.Config), "", is(ev.Stepped, "stepped"), "transcript", ev.Transcript, "parent", ev.Parent, "from", ev.From, "by", content.Sender(ev.User, ev.By))
	case events.ConfigChanged:
		return s.config(ev.Config)
	case events.ModelSwitched:
		return s.list("to", ev.Model, "by", content.Sender(ev.User, ev.By))
	case events.PolicyApplied:
		return s.list("", ev.Policy.Name, "digest", ev.Policy.Digest, "", rules(ev.Policy.Rules))
	case events.ToolsAllowed:
		return s.list("", ev.Grant, "tools", ev.Tools, "by", content.Sender(ev.User, ev.By))
	case events.CacheOverrideSet:
		return s.list("mode", ev.Cache.Mode, "retention", ev.Cache.Retention, "key", ev.Cache.Key)
	case events.CancelRequested:
		return s.list("", ev.Scope, "", ev.Target, "by", content.Sender(ev.User, ev.By)) + s.colon(ev.Reason)
	case events.SessionClosed:
		return s.list("", ev.Reason, "by", content.Sender(ev.User, ev.By))
	case events.SessionDeleted:
		return s.list("", is(!ev.Expired && ev.MovedTo == nil, "deleted")+is(ev.Expired, "expired"), "moved to", movedTo(ev.MovedTo), "by", content.Sender(ev.User, ev.By)) + s.colon(ev.Reason)
	case events.Refused:
		return s.list("", ev.Command) + " " + s.Bad(s.list("", ev.Reason)) + s.colon(ev.Detail)
	}
	return ""
}

// ofTurn is detail for the input, the turns and the rounds.
func (s Style) ofTurn(ev any) string {
	switch ev := ev.(type) {
	case events.InputQueued:
		return s.list("from", ev.Origin, "by", content.Sender(ev.User, ev.By), "", ev.OnBusy) + s.texts(ev.Items)
	case events.InputAccepted:
		return s.list("", ev.Turn, "from", ev.Origin) + s.texts(ev.Items)
	case events.TurnStarted:
		return s.list("", ev.Turn, "by", ev.Trigger)
	case events.RoundStarted:
		return s.list("", ev.Turn, "round", ev.Round)
	case events.RoundFinished:
		return s.list("", ev.Turn, "round", ev.Round, "transcript", count(ev.TranscriptLen, "item"))
	case events.StateChanged:
		return s.list("", ev.Phase)
	case events.LimitReached:
		return s.list("", ev.Scope, "", ev.Kind, "limit", ev.Limit, "used", ev.Used)
	case events.Warning:
		return s.paint(yellow, s.list("", ev.Code)) + s.after("call", ev.Call) + s.colon(ev.Message)
	case events.RunFailed:
		return s.Bad(s.list("", ev.Code, "", ev.Class)) + s.colon(ev.Message)
	case events.TurnFinished:
		return s.turnFinished(ev)
	}
	return ""
}

// ofModel is detail for model calls, hooks and mutators.
func (s Style) ofModel(ev any) string {
	switch ev := ev.(type) {
	case events.ModelCallStarted:
		return s.list("", ev.Turn, "round", ev.Round, "attempt", ev.Attempt, "with", count(ev.TranscriptLen, "item"))
	case events.ModelCallFailed:
		return s.modelFailed(ev)
	case events.ContentDelta:
		return s.delta(ev)
	case events.ContentRepeated:
		return s.delta(events.ContentDelta(ev))
	case events.ReplyRecorded:
		return s.list("", ev.Turn, "round", ev.Round, "attempt", ev.Attempt, "", ev.FinishReason, "", is(ev.Interrupted, "interrupted")) + s.texts(ev.Items)
	case events.UsageUpdated:
		return s.list("", usage(ev.Usage), "of", ev.Source)
	case events.HookDecided:
		return s.list("at", ev.Point, "call", ev.Call, "hook", ev.Hook, "", ev.Action, "failed open", ev.FailedOpen) + s.colon(ev.Reason) + s.notes(ev.Notes)
	case events.MutationStarted:
		return s.list("", ev.Turn, "", ev.Mutator, "at", ev.Point)
	case events.MutationFinished:
		return s.mutation(ev)
	}
	return ""
}

// ofCall is detail for the tools and their calls.
func (s Style) ofCall(ev any) string {
	switch ev := ev.(type) {
	case events.ToolCatalogChanged:
		return s.list("source", ev.Source, "added", names(ev.Added), "changed", names(ev.Changed), "removed", ev.Removed)
	case events.ToolCallRequested:
		return s.list("", ev.Call.ID) + " " + s.call(ev.Call)
	case events.ApprovalRequired:
		return s.approval(ev.Approval)
	case events.ApprovalResolved:
		return s.list("", ev.Approval, "call", ev.Call, "", ev.Outcome, "by", ev.Decider(), "as in", ev.Grant) + is(ev.Always, ", for always") + s.after("input", string(ev.Input)) + s.colon(ev.Reason)
	case events.ToolDispatched:
		return s.list("", ev.Call, "attempt", ev.Attempt, "", ev.Route, "queue", ev.Queue, "deadline", ev.Deadline, "input", string(ev.Input), "because of", grounds(ev.Because))
	case events.ToolAttemptLost:
		return s.list("", ev.Call, "attempt", ev.Attempt) + s.colon(ev.Reason)
	case events.DeadLetterSettled:
		return s.list("", ev.Call, "", ev.Outcome, "by", content.Sender(ev.User, ev.By)) + s.colon(ev.Reason)
	case events.ToolDetached:
		return s.list("", ev.Call, "by", content.Sender(ev.User, ev.By)) + s.colon(ev.Placeholder)
	case events.ToolProgress:
		return s.list("", ev.Call, "", share(ev.Share)) + s.colon(ev.Text)
	case events.ToolResultReceived:
		return s.list("", ev.Result.CallID) + " " + s.resultLine(ev.Result, ev.Duration) + is(ev.Late, " (late)")
	}
	return ""
}

// ofTask is detail for tasks, their verifiers and notes.
func (s Style) ofTask(ev any) string {
	switch ev := ev.(type) {
	case events.TaskStarted:
		return s.list("", ev.Task, "gate", ev.Spec.Verifier, "retries", ev.Spec.MaxRetries) + s.colon(ev.Spec.Goal)
	case events.MemoryRecalled:
		return count(len(ev.Items), "item") + s.texts(ev.Items)
	case events.VerifyStarted:
		return s.list("attempt", ev.Attempt)
	case events.VerifyFinished:
		return s.list("attempt", ev.Attempt, "", ev.Status, "exit", ev.Exit, "by", content.Sender(ev.User, ev.By)) + s.colon(ev.Output)
	case events.MemoryStored:
		return s.Bad(s.Line(ev.Error))
	case events.TaskFinished:
		return s.list("", ev.Status, "gate", ev.VerifyStatus, "files", ev.FilesChanged) + s.colon(ev.Summary)
	}
	return ""
}

// movedFrom names the cell where a session was before, if it was moved.
func movedFrom(m *events.MovedFrom) string {
	if m == nil {
		return ""
	}
	return m.String()
}

// movedTo names the cell where a session went, if it was moved.
func movedTo(m *events.MovedTo) string {
	if m == nil {
		return ""
	}
	return m.String()
}

// restoredFrom names the backup of a restore, if there is one.
func restoredFrom(r *events.Restored) string {
	if r == nil {
		return ""
	}
	return r.Backup + " of " + r.Taken.String()
}

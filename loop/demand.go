package loop

import (
	"fmt"

	"github.com/turnlog/turnlog/events"
)

// demand panics if the event cannot follow: a journal that holds it there was not
// written by Decide.
func (s *State) demand(ev events.Event) {
	task, turn := needs(ev)
	switch ev := any(ev).(type) { // in the background nothing needs a turn
	case events.ApprovalRequired:
		turn = !s.asksBeside(ev.Approval.CallID)
	case events.ApprovalResolved:
		turn = !s.asksBeside(ev.Call)
	}
	var what string
	switch {
	case turn && s.Turn == nil:
		what = "a turn"
	case task && s.Task == nil:
		what = "a task"
	default:
		return
	}
	panic(fmt.Sprintf("loop: %s without %s in %s/%d", events.KindOf(ev), what, s.Session, s.Seq))
}

// needs says which events are about the open task or the open turn. It asks no
// kind that may come at any time.
func needs(ev any) (task, turn bool) {
	switch ev := ev.(type) {
	case events.RoundStarted, events.RoundFinished, events.ModelCallStarted, events.ModelCallFailed, events.ReplyRecorded,
		events.ToolCallRequested, events.LimitReached, events.RunFailed,
		events.TurnFinished, events.ToolDetached:
		return false, true
	case events.MutationStarted:
		return false, ev.Point != pointAfterTurn
	case events.MutationFinished:
		return false, ev.Point != pointAfterTurn
	case events.ToolResultReceived:
		return false, !ev.Late
	case events.VerifyStarted, events.VerifyFinished, events.TaskFinished:
		return true, true
	case events.MemoryRecalled, events.MemoryStored:
		return true, false
	}
	return false, false
}

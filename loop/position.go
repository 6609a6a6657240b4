package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// position says where a session stands. advance emits events at some positions and Pending
// owes effects at others; both ask where, so they cannot disagree.
type position int

const (
	atNothing    position = iota // not opened, or closed
	atInput                      // idle with nothing to do
	atStart                      // idle with something queued
	atPlanning                   // a task needs its notes recalled
	atAfterTurn                  // a mutator is due after the turn
	atMutator                    // a mutator is running
	atHooks                      // hooks of a point are owed
	atTop                        // a round may start
	atYield                      // a round is complete
	atMutate                     // a mutator of the round is due
	atCall                       // the model may be called
	atDeadTail                   // the transcript ends in nothing a model could answer
	atModel                      // a model call is open
	atRetry                      // a model call waits for its next attempt
	atStopping                   // a cancel waits for the model or the verifier
	atReply                      // the reply is recorded; its finish reason decides
	atPreflight                  // the calls need their checks
	atApproval                   // a person must decide
	atHeld                       // the last question was just decided
	atTools                      // a call may be dispatched
	atWaitTools                  // calls are running, none may be dispatched
	atFailedTool                 // a failed tool ends the turn
	atRoundEnd                   // all calls are answered
	atVerify                     // a verifier is owed or running
	atReport                     // a task's summary is owed
)

// where returns the session's position, and at atHooks the point in question.
func (s *State) where() (p position, h HookPoint) {
	switch {
	case !s.Opened || s.Closed && s.Turn == nil:
		return atNothing, h
	case s.Turn == nil:
		return s.whereIdle(), h
	}
	t := s.Turn
	switch {
	case t.Stage == StageTop:
		return atTop, h
	case t.Stage == StageBoundary:
		return atYield, h
	case t.Stage == StageRound:
		return s.whereRound()
	case t.Stage == StageReplied:
		return s.whereReplied()
	case s.stopsFirst():
		return atStopping, h
	case t.Calling:
		return atModel, h
	case t.Stage == StageModel:
		return atRetry, h
	case s.Task.Running:
		return atVerify, h
	}
	return atReport, h
}

func (s *State) whereIdle() position {
	switch {
	case s.After.Open:
		return atMutator
	case s.After.Point != "" && s.nextMutator(s.After) >= 0:
		return atAfterTurn
	case s.Task != nil && !s.Task.Recalled:
		return atPlanning
	}
	loud := func(n Notice) bool { return !n.Quiet }
	if len(s.Queue) > 0 || s.Task != nil || !s.Config.NotifyOnly && slices.ContainsFunc(s.Notices, loud) {
		return atStart
	}
	return atInput
}

// stopsFirst reports whether a cancel waits for the model or the verifier.
func (s *State) stopsFirst() bool {
	t := s.Turn
	return t.Cancel != nil && (t.Calling || t.Stage == StageVerify && s.Task.Running)
}

func (s *State) whereRound() (position, HookPoint) {
	if h, owed := s.owesHook(pointLoop, ""); owed {
		return atHooks, h
	}
	if p, h, due := s.whereMutators(pointBeforeModel); due {
		return p, h
	}
	if !runnable(s.Transcript) {
		return atDeadTail, HookPoint{}
	}
	if h, owed := s.owesHook(pointPreLlm, ""); owed {
		return atHooks, h
	}
	return atCall, HookPoint{}
}

func (s *State) whereReplied() (position, HookPoint) {
	t := s.Turn
	if h, owed := s.owesHook(pointPostLlm, ""); owed {
		return atHooks, h
	}
	switch {
	case t.Reply != content.ToolCalls || len(t.Calls) == 0:
		return atReply, HookPoint{}
	case t.Cancel != nil && t.Mut.Open:
		return atMutator, HookPoint{} // until it has stopped
	case t.Cancel != nil:
		return atReply, HookPoint{}
	case !t.Checked && s.unanswered():
		return atPreflight, HookPoint{}
	}
	for _, c := range t.Calls {
		if h, owed := s.owesHook(pointPostTool, c.ID); owed && c.Result != nil && c.Attempt > 0 {
			return atHooks, h
		}
	}
	switch {
	case s.Config.FailRun && slices.ContainsFunc(t.Calls, Call.failsRun):
		return atFailedTool, HookPoint{}
	case slices.ContainsFunc(t.Calls, func(c Call) bool { return c.Attempt == 0 && undecided(t.Approvals, c.ID) }):
		return atApproval, HookPoint{} // a question about a call that never ran holds the whole round
	case s.unanswered():
		return s.whereDispatch()
	case t.Held && s.Stepped:
		return atHeld, HookPoint{}
	}
	if p, h, due := s.whereMutators(pointAfterTool); due {
		return p, h
	}
	return atRoundEnd, HookPoint{}
}

func (s *State) unanswered() bool {
	return slices.ContainsFunc(s.Turn.Calls, func(c Call) bool { return !c.Answered() })
}

// whereDispatch says what may start now. The hooks of the next call come before the wait
// of a stepped session: that wait leaves no event, and the hooks' decision does.
func (s *State) whereDispatch() (position, HookPoint) {
	t := s.Turn
	i := s.nextCall()
	if i < 0 {
		if undecided(t.Approvals, "") && !slices.ContainsFunc(t.Calls, Call.Running) {
			return atApproval, HookPoint{}
		}
		return atWaitTools, HookPoint{}
	}
	if h, owed := s.owesHook(pointPreTool, t.Calls[i].ID); owed {
		return atHooks, h
	}
	if t.Held && s.Stepped {
		return atHeld, HookPoint{}
	}
	return atTools, HookPoint{}
}

// nextCall is the index of the next call that may be dispatched, or -1: calls start in
// order, as many at a time as parallel allows, an exclusive one alone. A call in the
// background takes no slot, but an exclusive one does not run beside it.
func (s *State) nextCall() int {
	slots, others, exclusive := s.parallel(), false, false
	for i, c := range s.Turn.Calls {
		waits := c.Status == "" && s.undecided(c.ID) // a late question keeps its call's slot
		switch {
		case c.Running(), waits:
			others, exclusive = true, exclusive || c.Routing.Exclusive
			if !c.Answered() {
				slots--
			}
		case c.Answered():
		case exclusive || c.Routing.Exclusive && others || slots <= 0:
			return -1
		default:
			return i
		}
	}
	return -1
}

func (s *State) parallel() int {
	switch {
	case s.Task != nil, s.Config.MaxParallel == 0, s.turnOptions().Sequential:
		return 1
	case s.Config.MaxParallel < 0:
		return len(s.Turn.Calls)
	}
	return s.Config.MaxParallel
}

// whereMutators reports whether the mutators of a point of the round are due, and how.
func (s *State) whereMutators(point string) (p position, h HookPoint, due bool) {
	m := s.Turn.Mut.at(point)
	switch {
	case m.Open:
		return atMutator, h, true
	case m.Compacted > 0 && s.hasHook(pointCompaction):
		return atHooks, HookPoint{Point: pointCompaction}, true
	}
	return atMutate, h, s.nextMutator(m) >= 0
}

// nextMutator is the index of the next mutator of a point, or -1. A mutator that names no
// points runs at all of them. The list may have changed since the first one ran.
func (s *State) nextMutator(m Mutating) int {
	return slices.IndexFunc(s.Config.Mutators, func(r events.Registration) bool {
		here := len(r.Points) == 0 || slices.Contains(r.Points, m.Point)
		return here && !slices.Contains(m.Ran, r.Name)
	})
}

func (s *State) hasHook(point string) bool {
	return slices.ContainsFunc(s.Config.Hooks, func(r events.Registration) bool { return slices.Contains(r.Points, point) })
}

// owesHook reports whether hooks have yet to decide at a point of the round.
func (s *State) owesHook(point string, call content.CallID) (HookPoint, bool) {
	h := HookPoint{Point: point, Call: call}
	return h, s.hasHook(point) && !slices.Contains(s.Turn.Hooks, h)
}

// runnable reports whether a model may be called with this transcript.
func runnable(items []content.Item) bool {
	if len(items) == 0 {
		return false
	}
	switch last := items[len(items)-1]; last.Kind {
	case content.User, content.Tool, content.Notification:
		return true
	case content.Assistant:
		return last.FinishReason == content.Compaction
	default:
		return false
	}
}

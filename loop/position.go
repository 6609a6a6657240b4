package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// position is the place that a session has reached. advance emits events at some positions and Pending owes effects
// at the others. Both call where, so they cannot disagree.
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
	atDeadTail                   // the transcript ends with nothing that a model could answer
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

// where returns the session's position, and for atHooks the point that is owed.
func (s *State) where() (position, HookPoint) {
	f := search{State: s}
	return f.position(), f.hook
}

// search finds a position. hook is the last point that it looked at.
type search struct {
	*State
	hook HookPoint
}

func (f *search) position() position {
	t := f.Turn
	switch {
	case !f.Opened || f.Closed && t == nil:
		return atNothing
	case t == nil:
		return f.whereIdle()
	case t.Cancel == nil && slices.ContainsFunc(t.Approvals, func(a Approval) bool { return a.RequestKind == KindVerifier && a.Outcome == "" }):
		return atApproval
	case t.Stage == StageTop:
		return atTop
	case t.Stage == StageBoundary:
		return atYield
	case t.Stage == StageRound:
		return f.inRound()
	case t.Stage == StageReplied:
		return f.afterReply()
	case f.stopsFirst():
		return atStopping
	case t.Calling:
		return atModel
	case t.Stage == StageModel:
		return atRetry
	case f.Task.Running:
		return atVerify
	}
	return atReport
}

// owes reports whether the hooks of a point of the round must still decide.
func (f *search) owes(point string, call content.CallID) bool {
	f.hook = HookPoint{Point: point, Call: call}
	return f.owesHook(f.hook)
}

func (s *State) owesHook(h HookPoint) bool {
	return s.hasHook(h.Point) && !slices.Contains(s.Turn.Hooks, h)
}

func (s *State) hasHook(point string) bool {
	return slices.ContainsFunc(s.Config.Hooks, func(r events.Registration) bool { return slices.Contains(r.Points, point) })
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
	if len(s.Queue) > 0 || s.Task != nil || s.notifies() {
		return atStart
	}
	return atInput
}

// notifies reports whether a pending notification starts a turn by itself.
func (s *State) notifies() bool {
	return !s.Config.NotifyOnly && slices.ContainsFunc(s.Notices, func(n Notice) bool { return !n.Quiet })
}

// stopsFirst reports whether a cancel waits for the model or the verifier.
func (s *State) stopsFirst() bool {
	t := s.Turn
	return t.Cancel != nil && (t.Calling || t.Stage == StageVerify && s.Task.Running)
}

func (f *search) inRound() position {
	if f.owes(pointLoop, "") {
		return atHooks
	}
	if p := f.mutators(pointBeforeModel); p != atNothing {
		return p
	}
	switch {
	case !content.Runnable(f.Transcript):
		return atDeadTail
	case f.owes(pointPreLlm, ""):
		return atHooks
	}
	return atCall
}

func (f *search) afterReply() position {
	t := f.Turn
	switch {
	case f.owes(pointPostLlm, ""):
		return atHooks
	case t.Reply != content.ToolCalls || len(t.Calls) == 0:
		return atReply
	case t.Cancel != nil && t.Mut.Open:
		return atMutator // until it has stopped
	case t.Cancel != nil:
		return atReply
	case !t.Checked && f.unanswered():
		return atPreflight
	case slices.ContainsFunc(t.Calls, func(c Call) bool { return c.Result != nil && c.Attempt > 0 && f.owes(pointPostTool, c.ID) }):
		return atHooks
	case f.Config.FailRun && slices.ContainsFunc(t.Calls, Call.failsRun):
		return atFailedTool
	case slices.ContainsFunc(t.Calls, func(c Call) bool { return c.Attempt == 0 && undecided(t.Approvals, c.ID) }):
		return atApproval // a question about a call that never ran holds the whole round
	case f.unanswered():
		return f.dispatching()
	case t.Held && f.Stepped:
		return atHeld
	}
	if p := f.mutators(pointAfterTool); p != atNothing {
		return p
	}
	return atRoundEnd
}

func (s *State) unanswered() bool {
	return slices.ContainsFunc(s.Turn.Calls, func(c Call) bool { return !c.Answered() })
}

// dispatching returns the position of a round whose calls are being dispatched. The hooks of the next call run
// before a stepped session waits: the wait leaves no event, but the hooks' decision does.
func (f *search) dispatching() position {
	t := f.Turn
	i := f.nextCall()
	switch {
	case i < 0 && undecided(t.Approvals, "") && !slices.ContainsFunc(t.Calls, Call.Running):
		return atApproval
	case i < 0:
		return atWaitTools
	case f.owes(pointPreTool, t.Calls[i].ID):
		return atHooks
	case t.Held && f.Stepped:
		return atHeld
	}
	return atTools
}

// nextCall returns the index of the next call that may be dispatched, or -1. Calls start in order, as many at a time
// as parallel allows; an exclusive call runs alone. A call in the background takes no slot, but no exclusive call
// runs at the same time.
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

// mutators returns the position at the mutators of a point, or atNothing if none is due.
func (f *search) mutators(point string) position {
	m := f.Turn.Mut.at(point)
	switch {
	case m.Open:
		return atMutator
	case m.Compacted > 0 && f.hasHook(pointCompaction):
		f.hook = HookPoint{Point: pointCompaction}
		return atHooks
	case f.nextMutator(m) >= 0:
		return atMutate
	}
	return atNothing
}

// nextMutator returns the index of the next mutator of a point, or -1. A mutator that names no points runs at all of
// them. The list may have changed since the first one ran.
func (s *State) nextMutator(m Mutating) int {
	return slices.IndexFunc(s.Config.Mutators, func(r events.Registration) bool {
		here := len(r.Points) == 0 || slices.Contains(r.Points, m.Point)
		return here && !slices.Contains(m.Ran, r.Name)
	})
}

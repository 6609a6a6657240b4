package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Points of hooks and mutators and the actions of hooks, as they are recorded.
const (
	pointLoop         = "loop_iteration"
	pointPreLlm       = "pre_llm_call"
	pointPostLlm      = "post_llm_call"
	pointPreTool      = "pre_tool_execution"
	pointPostTool     = "post_tool_execution"
	pointCompaction   = "context_compaction"
	pointSessionStart = "session_start"
	pointSessionEnd   = "session_end"
	pointBeforeModel  = "before_model"
	pointAfterTool    = "after_tool_result"
	pointAfterTurn    = "after_turn_ended"

	actionContinue  = "continue"
	actionSkip      = "skip"
	actionTerminate = "terminate"
)

// position says where a session stands. advance emits at some positions, Pending
// owes effects at others; both ask the same function, so they cannot disagree.
type position int

const (
	atNothing    position = iota // not opened, or closed
	atInput                      // idle with nothing to do
	atStart                      // idle with something queued
	atPlanning                   // a task wants its recall
	atAfterTurn                  // a mutator of AfterTurnEnded is due
	atMutator                    // a mutator is running
	atHooks                      // hooks of a point are owed
	atTop                        // a round may start
	atYield                      // a round is complete
	atMutate                     // a mutator of the round is due
	atCall                       // the model may be called
	atDeadTail                   // the transcript ends in what no model answers
	atModel                      // a model call is open
	atRetry                      // a model call waits for its next attempt
	atStopping                   // a cancel waits for the model or the verifier
	atReply                      // the reply is recorded; its finish reason decides
	atPreflight                  // the calls want their checks
	atApproval                   // a person has to decide
	atHeld                       // the last approval was just decided
	atTools                      // calls may be dispatched
	atWaitTools                  // calls are running, none may be dispatched
	atFailedTool                 // a failing tool ends the turn
	atRoundEnd                   // all calls are answered
	atVerify                     // a gate is owed or running
	atReport                     // a task's summary is owed
)

// owedHook is the hook point that position atHooks is about.
type owedHook struct {
	point string
	call  content.CallID
}

// where returns the session's position.
func (s *State) where() (position, owedHook) {
	none := owedHook{}
	switch {
	case !s.Opened || s.Closed && s.Turn == nil:
		return atNothing, none
	case s.Turn == nil:
		return s.whereIdle(), none
	}
	t := s.Turn
	switch t.Stage {
	case StageTop:
		return atTop, none
	case StageBoundary:
		return atYield, none
	case StageRound:
		return s.whereRound()
	case StageModel:
		return s.whereModel(), none
	case StageReplied:
		return s.whereReplied()
	case StageVerify:
	}
	return s.whereVerify(), none
}

func (s *State) whereIdle() position {
	switch {
	case s.After.Open:
		return atMutator
	case s.After.Point != "" && s.mutatorAt(s.After) >= 0:
		return atAfterTurn
	}
	if s.Task != nil && !s.Task.Recalled {
		return atPlanning
	}
	wakes := !s.Config.NotifyOnly && slices.ContainsFunc(s.Notices, func(n Notice) bool { return !n.Quiet })
	if len(s.Queue) > 0 || s.Task != nil || wakes {
		return atStart
	}
	return atInput
}

func (s *State) whereRound() (position, owedHook) {
	if s.owesHook(pointLoop, "") {
		return atHooks, owedHook{point: pointLoop}
	}
	if p, h, due := s.whereMutators(pointBeforeModel); due {
		return p, h
	}
	if !runnable(s.Transcript) {
		return atDeadTail, owedHook{}
	}
	if s.owesHook(pointPreLlm, "") {
		return atHooks, owedHook{point: pointPreLlm}
	}
	return atCall, owedHook{}
}

// whereMutators reports what is due of the mutators of a point of the round.
func (s *State) whereMutators(point string) (position, owedHook, bool) {
	m := s.Turn.Mut
	if m.Point != point {
		m = Mutating{Point: point}
	}
	switch {
	case m.Open:
		return atMutator, owedHook{}, true
	case m.Compacted > 0 && s.hasHook(pointCompaction):
		return atHooks, owedHook{point: pointCompaction}, true
	case s.mutatorAt(m) >= 0:
		return atMutate, owedHook{}, true
	}
	return 0, owedHook{}, false
}

// mutatorAt is the index of the mutator that is next at a point, or -1. One that
// names no points stands at all of them. The list may have changed since the first
// of them ran.
func (s *State) mutatorAt(m Mutating) int {
	return slices.IndexFunc(s.Config.Mutators, func(r events.Registration) bool {
		stands := len(r.Points) == 0 || slices.Contains(r.Points, m.Point)
		return stands && !slices.Contains(m.Ran, r.Name)
	})
}

// whereVerify is the gate until it gave its verdict, then the report.
func (s *State) whereVerify() position {
	switch {
	case s.Task.Running && s.Turn.Cancel != nil:
		return atStopping
	case s.Task.Running:
		return atVerify
	}
	return atReport
}

func (s *State) whereModel() position {
	t := s.Turn
	switch {
	case t.Calling && t.Cancel != nil:
		return atStopping
	case t.Calling:
		return atModel
	}
	return atRetry
}

func (s *State) whereReplied() (position, owedHook) {
	t := s.Turn
	switch {
	case s.owesHook(pointPostLlm, ""):
		return atHooks, owedHook{point: pointPostLlm}
	case t.Reply != content.ToolCalls || len(t.Calls) == 0:
		return atReply, owedHook{}
	case t.Cancel != nil && t.Mut.Open:
		return atMutator, owedHook{} // until it has stopped
	case t.Cancel != nil:
		return atReply, owedHook{}
	case !t.Checked && s.unanswered():
		return atPreflight, owedHook{}
	}
	for _, c := range t.Calls {
		if c.Result != nil && c.Attempt > 0 && s.owesHook(pointPostTool, c.ID) {
			return atHooks, owedHook{pointPostTool, c.ID}
		}
	}
	if s.Config.FailRun && slices.ContainsFunc(t.Calls, failsRun) {
		return atFailedTool, owedHook{}
	}
	if s.gated() {
		return atApproval, owedHook{}
	}
	if s.unanswered() {
		return s.whereDispatch()
	}
	if t.Held && s.Stepped {
		return atHeld, owedHook{}
	}
	if p, h, due := s.whereMutators(pointAfterTool); due {
		return p, h
	}
	return atRoundEnd, owedHook{}
}

func (s *State) unanswered() bool {
	return slices.ContainsFunc(s.Turn.Calls, func(c Call) bool { return !c.Answered() })
}

// whereDispatch says what may start now: calls in order, at most MaxParallel at a
// time, an exclusive one alone. The hooks of the next call come before the wait of a
// stepped session, which leaves no event: what they decided does.
func (s *State) whereDispatch() (position, owedHook) {
	t := s.Turn
	i := s.nextCall()
	switch {
	case i < 0 && t.undecided("") && !slices.ContainsFunc(t.Calls, Call.Running):
		return atApproval, owedHook{}
	case i < 0:
		return atWaitTools, owedHook{}
	case s.owesHook(pointPreTool, t.Calls[i].ID):
		return atHooks, owedHook{pointPreTool, t.Calls[i].ID}
	case t.Held && s.Stepped:
		return atHeld, owedHook{}
	}
	return atTools, owedHook{}
}

// gated reports whether an approval is open that holds the whole round: one of a
// call that never ran.
func (s *State) gated() bool {
	t := s.Turn
	return slices.ContainsFunc(t.Calls, func(c Call) bool { return c.Attempt == 0 && t.undecided(c.ID) })
}

// nextCall is the index of the next call that may be dispatched, or -1. In the
// background a call takes nobody's slot, but an exclusive one is beside no other there
// either.
func (s *State) nextCall() int {
	t := s.Turn
	slots, beside, exclusive := s.parallel(), false, false
	for i := range t.Calls {
		c := &t.Calls[i]
		waits := c.Status == "" && s.undecided(c.ID) // a late gate keeps its call's slot
		switch {
		case c.Running(), waits:
			beside, exclusive = true, exclusive || c.Routing.Exclusive
			if !c.Answered() {
				slots--
			}
		case c.Answered():
		case exclusive || c.Routing.Exclusive && beside || slots <= 0:
			return -1
		default:
			return i
		}
	}
	return -1
}

func (s *State) parallel() int {
	switch {
	case s.Task != nil, s.Config.MaxParallel == 0, s.Turn.Options != nil && s.Turn.Options.Sequential:
		return 1
	case s.Config.MaxParallel < 0:
		return len(s.Turn.Calls)
	}
	return s.Config.MaxParallel
}

func failsRun(c Call) bool {
	if c.Result == nil {
		return false
	}
	switch c.Result.Status {
	case content.StatusError:
		return c.Result.Code != codeRetry && c.Result.Code != codeAuth
	case content.StatusDenied:
		return c.Result.Code != codeDeniedByPerson
	case content.StatusOK, content.StatusExpired, content.StatusSkipped, content.StatusCancelled, content.StatusLimit,
		content.StatusTerminated, content.StatusNotExecuted, content.StatusUnknown:
	}
	return false
}

func (s *State) hasHook(point string) bool {
	return slices.ContainsFunc(s.Config.Hooks, func(r events.Registration) bool { return slices.Contains(r.Points, point) })
}

func (s *State) owesHook(point string, call content.CallID) bool {
	return s.hasHook(point) && !slices.Contains(s.Turn.Hooks, Decided{Point: point, Call: call})
}

// runnable reports whether a model may be called with this transcript.
func runnable(items []content.Item) bool {
	if len(items) == 0 {
		return false
	}
	last := items[len(items)-1]
	switch last.Kind {
	case content.User, content.Tool, content.Notification:
		return true
	case content.Assistant:
		return last.FinishReason == content.Compaction
	case content.System, content.Developer, content.Context:
		return false
	}
	return false
}

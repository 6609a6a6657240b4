package loop

import (
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// deadlineGrace is how long after a call's deadline the core answers it itself. Whoever
// runs the call ends it at its deadline, leaves the tool five seconds to clean up or to
// hand in a result after all, and reports: that is twice the time.
const deadlineGrace = 10_000_000_000

// Pending lists what the session owes to the world now, as a function of its
// state alone: a host that has just replayed owes exactly what the dead one owed.
func Pending(s *State) []Effect {
	var out []Effect
	p, hook := s.where()
	switch p {
	case atModel:
		out = append(out, CallModel{ModelCall: s.modelCall(), TranscriptLen: len(s.Transcript), Cache: s.Turn.Cache, Schema: s.schema(), Rules: s.rules(), Routes: s.routes()})
	case atStopping:
		out = append(out, s.stopping())
	case atRetry:
		out = append(out, ArmTimer{Kind: commands.TimerRetry, ID: string(s.Turn.ID), At: s.Turn.RetryAt})
	case atPreflight:
		out = append(out, s.owedPreflight())
	case atHooks:
		out = append(out, s.owedHooks(hook))
	case atMutator:
		out = append(out, s.owedMutator())
	case atPlanning:
		out = append(out, Recall{Task: s.Task.Name, Goal: s.Task.Spec.Goal})
	case atVerify:
		out = append(out, Verify{Task: s.Task.Name, Attempt: s.Task.Attempts, Gate: s.Task.Spec.Gate})
	case atReport:
		out = append(out, StoreMemory{Task: s.Task.Name, Goal: s.Task.Spec.Goal, Summary: s.summary()})
	case atNothing, atInput, atStart, atAfterTurn, atTop, atYield, atMutate, atCall, atDeadTail, atReply,
		atApproval, atHeld, atTools, atWaitTools, atFailedTool, atRoundEnd:
	}
	out = append(out, s.owedTools()...)
	return append(out, s.owedTimers()...)
}

func (s *State) schema() json.RawMessage {
	if s.Config.Output == nil {
		return nil
	}
	return s.Config.Output.Schema
}

func (s *State) modelCall() commands.ModelCall {
	return commands.ModelCall{Turn: s.Turn.ID, Round: s.Turn.Round, Attempt: s.Turn.Attempt}
}

func (s *State) stopping() Effect {
	if s.Turn.Stage == StageVerify {
		return StopVerify{Task: s.Task.Name, Attempt: s.Task.Attempts}
	}
	return StopModel{ModelCall: s.modelCall(), Reason: s.Turn.Cancel.Reason}
}

func (s *State) owedPreflight() Effect {
	open := slices.DeleteFunc(slices.Clone(s.Turn.Calls), Call.Answered)
	return Preflight{Turn: s.Turn.ID, Round: s.Turn.Round, Calls: open, Rules: s.rules(), Hooks: s.hasHook(pointPreTool)}
}

func (s *State) owedHooks(h owedHook) Effect {
	t := s.Turn
	e := RunHooks{Turn: t.ID, Round: t.Round, Point: h.point, Call: h.call}
	if h.point == pointCompaction {
		e.N, e.Old, e.New = len(t.Mut.Ran), t.Mut.Old, t.Mut.New
	}
	return e
}

func (s *State) owedMutator() Effect {
	if t := s.Turn; t != nil {
		return RunMutator{Turn: t.ID, Round: t.Round, Mutator: t.Mut.current(), Point: t.Mut.Point, Stop: t.Cancel != nil}
	}
	return RunMutator{Turn: s.Last.Turn, Round: s.Last.Rounds, Mutator: s.After.current(), Point: s.After.Point}
}

// owedTools are the calls that run, and those that have to stop.
func (s *State) owedTools() []Effect {
	var out []Effect
	each := func(c Call) {
		switch {
		case c.Running():
			out = append(out, RunTool{Session: s.Session, Call: c})
		case c.stopping():
			stop := StopTool{Call: c.ID, Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Reason: string(c.Status)}
			if !c.Dispatched {
				stop.Held = &c
			}
			out = append(out, stop)
		}
	}
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			each(c)
		}
	}
	for _, c := range s.Background {
		each(c)
	}
	for _, c := range s.Stops {
		each(c)
	}
	return out
}

// owedTimers are the times at which something is decided without anybody's doing.
func (s *State) owedTimers() []Effect {
	var out []Effect
	arm := func(kind, id string, at content.Time) {
		if at != 0 {
			out = append(out, ArmTimer{Kind: kind, ID: id, At: at})
		}
	}
	for _, a := range s.approvals() {
		if a.Outcome == "" {
			arm(commands.TimerApproval, string(a.ID), a.ExpiresAt)
		}
	}
	if t := s.Turn; t != nil {
		for _, c := range t.Calls {
			if c.Running() && !c.Answered() {
				arm(commands.TimerDetach, string(c.Place), c.DetachAt)
			}
			arm(commands.TimerDeadline, string(c.Place), c.overdueAt())
		}
		arm(commands.TimerWallClock, string(t.ID), s.wallClock())
	}
	for _, c := range s.Background {
		arm(commands.TimerDeadline, string(c.Place), c.overdueAt())
	}
	return out
}

// overdueAt is when the core stops waiting for a running call; zero: never.
func (c Call) overdueAt() content.Time {
	if !c.Running() || c.Deadline == 0 {
		return 0
	}
	return c.Deadline.Add(deadlineGrace)
}

// Waiting says what the session waits for. It is the only thing that a host's
// Next looks at.
func Waiting(s *State) commands.Wait {
	p, _ := s.where()
	switch p {
	case atNothing, atInput:
		if undecided(s.Beside, "") && !s.Closed {
			return commands.WaitApproval
		}
		return commands.WaitInput
	case atApproval:
		return commands.WaitApproval
	case atWaitTools:
		if s.undecided("") {
			return commands.WaitApproval // beside calls that still run
		}
	case atYield:
		return commands.WaitYield
	case atStart, atHeld:
		return commands.WaitReady
	case atPlanning, atAfterTurn, atMutator, atHooks, atTop, atMutate, atCall, atDeadTail, atModel, atRetry,
		atStopping, atReply, atPreflight, atTools, atFailedTool, atRoundEnd, atVerify, atReport:
	}
	return commands.WaitWorking
}

// Parkable reports whether nothing is outstanding that needs a process: whatever
// wakes the session comes as a command.
func (s *State) Parkable() bool {
	if Waiting(s) == commands.WaitWorking {
		return false
	}
	return s.Turn == nil || !slices.ContainsFunc(s.Turn.Calls, func(c Call) bool { return c.Running() && !c.Answered() })
}

// Phase projects what a task is doing.
func (s *State) Phase() events.Phase {
	switch {
	case s.Task == nil:
		return events.Idle
	case s.Turn == nil:
		return events.Planning
	case s.Turn.Stage == StageVerify && s.Task.Running:
		return events.Verifying
	case s.Turn.Stage == StageVerify:
		return events.Reporting
	}
	return events.Executing
}

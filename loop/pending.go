package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Pending lists the effects that the session owes now. They depend on its state alone, so a host that has just
// replayed owes exactly the same effects as the one that died.
func Pending(s *State) []Effect {
	var out []Effect
	p, hook := s.where()
	switch p {
	case atModel:
		model := CallModel{
			ModelCall: s.modelCall(), TranscriptLen: len(s.Transcript), Cache: s.Turn.Cache, Rules: s.rules(),
			Routes: slices.Concat(s.turnOptions().Routes, s.Config.Routes), // the first match counts
		}
		if o := s.Config.Output; o != nil {
			model.Schema = o.Schema
		}
		out = append(out, model)
	case atStopping:
		if s.Turn.Stage == StageVerify {
			out = append(out, StopVerify{Task: s.Task.Name, Attempt: s.Task.Attempts})
		} else {
			out = append(out, StopModel{ModelCall: s.modelCall(), Reason: s.Turn.Cancel.Reason})
		}
	case atRetry:
		out = append(out, ArmTimer{Kind: commands.TimerRetry, ID: string(s.Turn.ID), At: s.Turn.RetryAt})
	case atPreflight:
		open := slices.DeleteFunc(slices.Clone(s.Turn.Calls), Call.Answered)
		out = append(out, Preflight{Turn: s.Turn.ID, Round: s.Turn.Round, Calls: open, Rules: s.rules(), Hooks: s.hasHook(pointPreTool)})
	case atHooks:
		e := RunHooks{Turn: s.Turn.ID, Round: s.Turn.Round, Point: hook.Point, Call: hook.Call}
		if m := s.Turn.Mut; hook.Point == pointCompaction {
			e.N, e.Old, e.New = len(m.Ran), m.Old, m.New
		}
		out = append(out, e)
	case atMutator:
		m := s.mutating("")
		turn, round := s.here()
		out = append(out, RunMutator{Turn: turn, Round: round, Mutator: m.current(), Point: m.Point, Stop: s.cancelling()})
	case atPlanning:
		out = append(out, Recall{Task: s.Task.Name, Goal: s.Task.Spec.Goal})
	case atVerify:
		out = append(out, Verify{Task: s.Task.Name, Attempt: s.Task.Attempts, Command: s.Task.Spec.Verifier})
	case atReport:
		out = append(out, StoreMemory{Task: s.Task.Name, Goal: s.Task.Spec.Goal, Summary: s.summary()})
	default:
	}
	return s.pendingTimers(s.pendingTools(out))
}

func (s *State) modelCall() commands.ModelCall {
	return commands.ModelCall{Turn: s.Turn.ID, Round: s.Turn.Round, Attempt: s.Turn.Attempt}
}

// pendingTools adds the calls that run, and those that must stop.
func (s *State) pendingTools(out []Effect) []Effect {
	for _, calls := range [...][]Call{s.roundCalls(), s.Background, s.Stops} {
		for i := range calls {
			switch c := &calls[i]; {
			case c.Running():
				out = append(out, RunTool{Session: s.Session, Call: *c})
			case c.stopping():
				stop := StopTool{Call: c.ID, Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Reason: string(c.Status)}
				if !c.Dispatched {
					held := *c
					stop.Held = &held
				}
				out = append(out, stop)
			}
		}
	}
	return out
}

// deadlineGrace is how long after a call's deadline the core answers it: twice the five seconds that a runner gives
// a tool to clean up.
const deadlineGrace = 10_000_000_000

// pendingTimers adds the times at which the core decides by itself.
func (s *State) pendingTimers(out []Effect) []Effect {
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

// timer handles a fired timer, if Pending still owes it and it is due.
func (d *decision) timer(c commands.ReportTimer) {
	due := slices.ContainsFunc(Pending(&d.State), func(e Effect) bool {
		t, ok := e.(ArmTimer)
		return ok && t.Kind == c.Kind && t.ID == c.ID && t.At <= d.At
	})
	if !due {
		return
	}
	call, _ := d.CallAt(content.Place(c.ID))
	switch c.Kind {
	case commands.TimerRetry:
		if !d.limited(events.LimitRequests) {
			d.callModel(d.Turn.Attempt + 1)
		}
	case commands.TimerApproval:
		d.expire(content.ApprovalID(c.ID))
	case commands.TimerDetach:
		d.emit(events.ToolDetached{Call: call.ID, Placeholder: placeholder(call.Name)})
	case commands.TimerDeadline:
		id, text := call.ID, "Tool timed out after "+call.Routing.Timeout.String()
		d.answer(*call, content.StatusError, codeTimeout, text)
		d.warnTool(id, content.StatusError, text)
	case commands.TimerWallClock:
		d.limited(events.LimitWallClock)
	}
}

// Waiting returns what the session waits for. A host's Next depends on nothing else.
func Waiting(s *State) commands.Wait {
	switch p, _ := s.where(); p {
	case atNothing, atInput:
		if undecided(s.BackgroundApprovals, "") && !s.Closed {
			return commands.WaitApproval
		}
		return commands.WaitInput
	case atApproval:
		return commands.WaitApproval
	case atWaitTools:
		if s.undecided("") {
			return commands.WaitApproval // even while calls still run
		}
	case atYield:
		return commands.WaitYield
	case atStart, atHeld:
		return commands.WaitReady
	default:
	}
	return commands.WaitWorking
}

// Parkable reports whether the session needs no process until the next command.
func (s *State) Parkable() bool {
	working := func(c Call) bool { return c.Running() && !c.Answered() }
	return Waiting(s) != commands.WaitWorking && !slices.ContainsFunc(s.roundCalls(), working)
}

// Phase returns what a task is doing.
func (s *State) Phase() events.Phase {
	switch {
	case s.Task == nil:
		return events.Idle
	case s.Turn == nil:
		return events.Planning
	case s.Turn.Stage != StageVerify:
		return events.Executing
	case s.Task.Running:
		return events.Verifying
	}
	return events.Reporting
}

package session

import (
	"slices"
	"sync/atomic"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// stepper turns a session's state into steps. It remembers which steps it has returned.
type stepper struct {
	s        *Session
	turns    int        // the number of the last turn that ended here
	ended    []*turnEnd // not yet returned
	asked    []content.ApprovalID
	blocking content.ApprovalID // the last step, if it was an approval
	yielded  place
	passed   position // the last wait that was passed
	stale    *atomic.Bool
}

// turnEnd is how a turn ended.
type turnEnd struct {
	loop.Ended
	transcript []content.Item
	returned   bool
}

type place struct {
	turn  content.TurnID
	round int
}

// position is a wait of a stepped session. A call that asks in the middle of a round
// makes the round wait once more.
type position struct {
	turns   int
	decided int // approvals of the round
	wait    commands.Continue
}

// advance is what Next must do: return the step or the end of a turn, pass a wait, or, if
// all are nil, wait for something to arrive.
type advance struct {
	step Step
	end  *turnEnd
	pass *position
}

func newStepper(s *Session, st *loop.State) stepper {
	out := stepper{s: s, stale: new(atomic.Bool)}
	if st.Last != nil {
		out.turns = st.Last.N
	}
	return out
}

// begin invalidates the last step's handles.
func (p *stepper) begin() {
	p.blocking = ""
	p.stale.Store(true)
	p.stale = new(atomic.Bool)
}

// blockedBy returns the approval that Next returned last, if it is still undecided.
func (p *stepper) blockedBy(st *loop.State) *events.Approval {
	if p.blocking == "" {
		return nil
	}
	for _, a := range st.PendingApprovals() {
		if a.ID == p.blocking {
			return &a
		}
	}
	return nil
}

// unblock lets Next return the same approval again.
func (p *stepper) unblock() {
	p.asked = slices.DeleteFunc(p.asked, func(id content.ApprovalID) bool { return id == p.blocking })
	p.blocking = ""
}

func (p *stepper) advance(st *loop.State) advance {
	wait := loop.Waiting(st)
	if len(p.ended) > 0 && (st.Turn != nil || wait != commands.WaitWorking) {
		return advance{end: p.takeEnd(st)}
	}
	if wait == commands.WaitYield || wait == commands.WaitReady {
		if a, ok := p.unasked(st); ok {
			return advance{step: p.ask(st, a)}
		}
	}
	switch wait {
	case commands.WaitWorking:
		return advance{}
	case commands.WaitApproval:
		if !st.Parkable() {
			return advance{} // calls of the round still run
		}
		return advance{step: p.approval(st)}
	case commands.WaitYield:
		if here := (place{st.Turn.ID, st.Turn.Round}); p.yielded != here {
			p.yielded = here
			return advance{step: p.yield(st)}
		}
		return advance{pass: p.pass(st, wait)}
	case commands.WaitReady:
		return advance{pass: p.pass(st, wait)}
	case commands.WaitInput:
	}
	return advance{step: &AwaitingInput{SessionID: st.Session, Reason: "driver is waiting for input", handle: p.handle()}}
}

// endsKept limits how many ends wait for a Next. A caller that only follows a session never calls
// Next.
const endsKept = 256

// collect notes the turns that ended with the last entry.
func (p *stepper) collect(st *loop.State) {
	for _, e := range st.Ends {
		if e.N > p.turns {
			p.turns = e.N
			p.ended = append(p.ended, &turnEnd{Ended: e, transcript: slices.Clip(st.Transcript)})
		}
	}
	p.ended = slices.Delete(p.ended, 0, max(0, len(p.ended)-endsKept))
}

func (p *stepper) takeEnd(st *loop.State) *turnEnd {
	end := p.ended[0]
	p.ended = p.ended[1:]
	end.returned = true
	if st.Turns == end.N { // otherwise mutators may have rewritten the transcript since
		end.transcript = slices.Clip(st.Transcript)
	}
	return end
}

func (p *stepper) endOf(turn content.TurnID) *turnEnd {
	for _, e := range p.ended {
		if e.Turn == turn {
			return e
		}
	}
	return nil
}

// more reports whether Next would return more than AwaitingInput, and no refusal.
func (p *stepper) more(st *loop.State) bool {
	if p.blockedBy(st) != nil {
		return false
	}
	return len(p.ended) > 0 || loop.Waiting(st) != commands.WaitInput
}

// approval returns the first undecided approval that was not returned yet, or else the first one.
func (p *stepper) approval(st *loop.State) Step {
	a, ok := p.unasked(st)
	if !ok {
		a = st.PendingApprovals()[0]
	}
	return p.ask(st, a)
}

func (p *stepper) unasked(st *loop.State) (a events.Approval, ok bool) {
	for _, a := range st.PendingApprovals() {
		if !slices.Contains(p.asked, a.ID) {
			return a, true
		}
	}
	return a, false
}

func (p *stepper) ask(st *loop.State, a events.Approval) Step {
	p.asked = slices.DeleteFunc(p.asked, func(id content.ApprovalID) bool { return id == a.ID || !undecided(st, id) })
	p.asked = append(p.asked, a.ID)
	p.blocking = a.ID
	return &ApprovalRequest{Approval: a, handle: p.handle()}
}

func (p *stepper) yield(st *loop.State) Step {
	step := &AfterToolResult{
		SessionID: st.Session, TurnID: st.Turn.ID, TranscriptLen: len(st.Transcript), Round: st.Turn.Round, handle: p.handle(),
	}
	for _, c := range st.Turn.Calls {
		step.Calls = append(step.Calls, c.ToolCall)
		step.Results = append(step.Results, answer(c))
	}
	return step
}

// answer returns the result of a call as the model sees it.
func answer(c loop.Call) content.ToolResult {
	if c.Result != nil {
		return *c.Result
	}
	return content.NewResult(c.ID, c.Name, content.StatusOK, c.Placeholder)
}

// pass returns the wait that stops the session, or nil if it was passed already but the entry that
// says so has not arrived.
func (p *stepper) pass(st *loop.State, w commands.Wait) *position {
	here := position{turns: st.Turns, wait: commands.Continue{Wait: w}}
	if t := st.Turn; t != nil {
		here.wait.Turn, here.wait.Round = t.ID, t.Round
		for _, a := range t.Approvals {
			if a.Outcome != "" {
				here.decided++
			}
		}
	}
	if here == p.passed {
		return nil
	}
	return &here
}

func (p *stepper) handle() handle { return handle{s: p.s, stale: p.stale} }

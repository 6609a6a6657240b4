package agent

import (
	"slices"
	"sync/atomic"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// Stepper turns a session's state into steps. It remembers what it surfaced: that
// is memory of whoever drives, not of the session, so after a restart each
// undecided approval and an open yield are surfaced once more, and a turn that
// ended before it is not. Package client drives remote sessions with it.
type Stepper struct {
	host     Host
	turns    int          // the number of the last turn that ended, as far as is known here
	ended    []loop.Ended // what is not yet surfaced of them
	asked    []content.ApprovalID
	blocking content.ApprovalID
	yielded  yield
	stale    *atomic.Bool
}

type yield struct {
	turn  content.TurnID
	round int
}

// NewStepper returns a stepper for a session in state s.
func NewStepper(h Host, s *loop.State) *Stepper {
	st := &Stepper{host: h, stale: new(atomic.Bool)}
	if s.Last != nil {
		st.turns = s.Last.N
	}
	return st
}

// Begin ends the life of the last step's handles. It returns an *InvalidStateError
// if that step is an approval which is still undecided.
func (st *Stepper) Begin(s *loop.State) error {
	if st.blocking != "" {
		for _, a := range s.PendingApprovals() {
			if a.ID == st.blocking {
				return &InvalidStateError{Op: "next", Reason: "approval_pending", Call: a.CallID}
			}
		}
	}
	st.blocking = ""
	st.stale.Store(true)
	st.stale = new(atomic.Bool)
	return nil
}

// Advance is what Next does with the session's present state: return the step,
// send the Continue, or, if both are nil, wait for news.
func (st *Stepper) Advance(s *loop.State) (Step, *commands.Continue, error) {
	wait := loop.Waiting(s)
	if s.Turn != nil || wait != commands.WaitWorking {
		st.collect(s)
	}
	if len(st.ended) > 0 {
		e := st.ended[0]
		st.ended = st.ended[1:]
		if e.FinishReason == content.Errored {
			return nil, nil, turnError(s, &e)
		}
		return &Finished{Result: resultOf(&e)}, nil, nil
	}
	if wait == commands.WaitYield || wait == commands.WaitReady {
		if a, ok := st.unasked(s); ok {
			return st.ask(a), nil, nil
		}
	}
	switch wait {
	case commands.WaitWorking:
		return nil, nil, nil
	case commands.WaitApproval:
		if !s.Parkable() {
			return nil, nil, nil // calls still run beside it
		}
		return st.approval(s), nil, nil
	case commands.WaitYield:
		return st.yield(s)
	case commands.WaitReady:
		return nil, continueOf(s, wait), nil
	case commands.WaitInput:
	}
	return &AwaitingInput{SessionID: s.Session, Reason: "driver is waiting for input", handle: st.handle()}, nil, nil
}

// collect takes note of the turns that have ended: several of them, if the last
// entry holds their ends.
func (st *Stepper) collect(s *loop.State) {
	ends := s.Ends
	if len(ends) == 0 && s.Last != nil {
		ends = []loop.Ended{*s.Last}
	}
	for _, e := range ends {
		if e.N > st.turns {
			st.turns = e.N
			st.ended = append(st.ended, e)
		}
	}
}

// more reports whether a host that steps on gets more than AwaitingInput, and no
// refusal.
func (st *Stepper) more(s *loop.State) bool {
	if st.blocking != "" && slices.ContainsFunc(s.PendingApprovals(), func(a events.Approval) bool { return a.ID == st.blocking }) {
		return false
	}
	return len(st.ended) > 0 || s.Last != nil && s.Last.N > st.turns || loop.Waiting(s) != commands.WaitInput
}

// approval surfaces the first undecided approval that was not surfaced yet, else
// the first.
func (st *Stepper) approval(s *loop.State) Step {
	a, ok := st.unasked(s)
	if !ok {
		a = s.PendingApprovals()[0]
	}
	return st.ask(a)
}

// unasked is the first undecided approval that was not surfaced yet.
func (st *Stepper) unasked(s *loop.State) (a events.Approval, ok bool) {
	open := s.PendingApprovals()
	i := slices.IndexFunc(open, func(a events.Approval) bool { return !slices.Contains(st.asked, a.ID) })
	if i < 0 {
		return a, false
	}
	return open[i], true
}

func (st *Stepper) ask(a events.Approval) Step {
	st.asked = append(st.asked, a.ID)
	st.blocking = a.ID
	return &ApprovalRequest{Approval: a, handle: st.handle()}
}

func (st *Stepper) yield(s *loop.State) (Step, *commands.Continue, error) {
	here := yield{s.Turn.ID, s.Turn.Round}
	if st.yielded == here {
		return nil, continueOf(s, commands.WaitYield), nil
	}
	st.yielded = here
	step := &AfterToolResult{
		SessionID: s.Session, TurnID: s.Turn.ID, TranscriptLen: len(s.Transcript), Round: s.Turn.Round, handle: st.handle(),
	}
	for _, c := range s.Turn.Calls {
		step.Calls = append(step.Calls, c.ToolCall)
		step.Results = append(step.Results, answer(c))
	}
	return step, nil, nil
}

// answer is what the model was told of a call.
func answer(c loop.Call) content.ToolResult {
	if c.Result != nil {
		return *c.Result
	}
	return content.NewResult(c.ID, c.Name, content.StatusOK, c.Placeholder)
}

func continueOf(s *loop.State, w commands.Wait) *commands.Continue {
	c := commands.Continue{Wait: w}
	if s.Turn != nil {
		c.Turn, c.Round = s.Turn.ID, s.Turn.Round
	}
	return &c
}

func (st *Stepper) handle() handle { return handle{host: st.host, stale: st.stale} }

func resultOf(e *loop.Ended) TurnResult {
	return TurnResult{
		TurnID: e.Turn, FinishReason: e.FinishReason, Items: e.Items,
		Usage: e.Usage, Rounds: e.Rounds, Metadata: e.Metadata,
		Limit: e.Limit, Task: taskResult(e),
	}
}

package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Next advances the session to its next step. A session of a deployment advances by itself,
// unless it is stepped: then it waits for Next. Next returns the ends of the last 256 turns.
//
// When ctx ends, Next returns its cause and the turn stays open. Effects in this process are
// stopped, and the following Next resumes as after a crash. A turn that ended with an error
// is returned as *ProviderError, *ToolError, *MutatorError or *OutputError; the session stays
// usable. Next returns ErrInvalidState if an approval has to be decided first, or if another
// Next is running.
func (s *Session) Next(ctx context.Context) (Step, error) {
	step, end, err := s.next(ctx, context.WithoutCancel(ctx), s.newTurn())
	if end != nil {
		return s.finish(end)
	}
	return step, err
}

// next returns the next step, or the end of a turn. When over ends, which the facades pass, the
// turn t is cancelled if it is open.
func (s *Session) next(ctx, over context.Context, t *Turn) (Step, *turnEnd, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	for {
		if err := s.backend.Sync(ctx); err != nil {
			return nil, nil, err
		}
		if over.Err() != nil {
			if err := t.cancel(ctx, over, false); err != nil {
				return nil, nil, err
			}
		}
		var a advance
		gone := s.backend.View(func(st *loop.State, _ journal.Head) { a = s.stepper.advance(st) })
		switch {
		case a.end != nil:
			return nil, a.end, nil
		case gone != nil:
			return nil, nil, gone
		case a.step != nil:
			return s.complete(a.step), nil, nil
		case a.pass != nil:
			if err := s.pass(ctx, over, a.pass); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err := s.backend.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// pass ends a wait of a stepped session, once. A Continue that comes too late is not an error.
// When over ends, a driver has a limited time to accept the Continue.
func (s *Session) pass(ctx, over context.Context, p *position) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(over, func() {
		time.AfterFunc(cancelWithin, func() { end(context.Cause(over)) })
	})()
	err := s.Ask(ctx, p.wait)
	if e, ok := errors.AsType[*InvalidStateError](err); ok && e.Reason == ReasonPassedOver {
		err = nil
	}
	if err == nil || errors.Is(err, ErrNoAnswer) { // the command is in the inbox: do not send it again
		s.view(func(*loop.State) { s.stepper.passed = *p })
	}
	return err
}

// enter refuses a second Next, and a Next that would pass an undecided approval, unless it
// has expired in the meantime.
func (s *Session) enter(ctx context.Context) (leave func(), err error) {
	free, err := s.backend.Enter(ctx)
	if err != nil {
		return nil, err
	}
	var busy bool
	s.view(func(*loop.State) { busy, s.driving = s.driving, true })
	if busy {
		free()
		return nil, &InvalidStateError{Op: "next", Reason: "busy", Detail: "another Next is running"}
	}
	leave = func() {
		s.view(func(st *loop.State) {
			s.driving = false
			s.signal(st)
		})
		free()
	}
	if err = s.blocked("next"); err != nil {
		if e := s.backend.Sync(ctx); e != nil {
			err = e
		} else {
			err = s.blocked("next")
		}
	}
	if err != nil {
		leave()
		return nil, err
	}
	s.view(func(*loop.State) { s.stepper.begin() })
	return leave, nil
}

// blocked returns the error of a Next while the approval that the last one returned is
// undecided.
func (s *Session) blocked(op string) (err error) {
	s.view(func(st *loop.State) {
		if a := s.stepper.blockedBy(st); a != nil {
			err = &InvalidStateError{Op: op, Reason: "approval_pending", Call: a.CallID}
		}
	})
	return err
}

// passable returns the error that the first step of a facade would return, so that the
// facade submits nothing. An approver is asked about an undecided approval again.
func (s *Session) passable(op string) error {
	var busy bool
	s.view(func(*loop.State) { busy = s.driving })
	if busy {
		return &InvalidStateError{Op: op, Reason: "busy", Detail: "another Next is running"}
	}
	if s.config.Approver != nil {
		s.view(func(*loop.State) { s.stepper.unblock() })
	}
	return s.blocked(op)
}

// finish returns the end of a turn as Next does.
func (s *Session) finish(end *turnEnd) (Step, error) {
	step, err := end.step()
	if err != nil {
		return nil, err
	}
	return s.complete(step), nil
}

// complete adds the compactions since the previous step.
func (s *Session) complete(step Step) Step {
	s.live.Lock()
	defer s.live.Unlock()
	switch step := step.(type) {
	case *AfterToolResult:
		step.Compactions, s.compacted = s.compacted, nil
	case *Finished:
		step.Compactions, s.compacted = s.compacted, nil
	case *ApprovalRequest, *AwaitingInput:
	}
	return step
}

// errDecided is the cause with which an approver's context ends when the approval was decided
// elsewhere.
var errDecided = &InvalidStateError{Op: "approve", Reason: "already_decided"}

// asking is a call of the approver that is running.
type asking struct {
	approval content.ApprovalID
	cancel   context.CancelCauseFunc
}

// approve asks Config.Approver. The approver's context ends when the approval is decided elsewhere,
// or when the turn is left. When ctx ends, the turn is cancelled, and the approval with it.
func (t *Turn) approve(ctx context.Context, r *ApprovalRequest) error {
	s := t.s
	if s.config.Approver == nil {
		return s.pending()
	}
	asked, cancel := t.followed(ctx)
	defer cancel(nil)
	s.view(func(st *loop.State) {
		s.asking = &asking{r.ID, cancel}
		if !undecided(st, r.ID) {
			cancel(errDecided)
		}
	})
	approve, reason, err := s.config.Approver.Approve(asked, r.Approval)
	s.view(func(*loop.State) { s.asking = nil })
	switch {
	case t.isClosed():
		return ErrLeft
	case ctx.Err() != nil:
		return t.cancel(context.WithoutCancel(ctx), ctx, false)
	case context.Cause(asked) == errDecided: //nolint:errorlint // compared by identity
		return nil
	case errors.Is(err, ErrUndecided):
		return s.pending()
	case err != nil:
		return err
	case approve:
		err = r.decide(asked, "approve", commands.ResolveApproval{Approve: true, Reason: reason})
	default:
		err = r.DenyWithReason(asked, reason)
	}
	switch {
	case errors.Is(err, ErrInvalidState):
		return nil // decided elsewhere
	case err != nil && ctx.Err() != nil: // whether or not it was recorded, the turn is cancelled
		return t.cancel(context.WithoutCancel(ctx), ctx, false)
	case err != nil && t.isClosed():
		return ErrLeft
	}
	return err
}

// pending returns the error of a facade that needs a decision.
func (s *Session) pending() error {
	e := &ApprovalPendingError{}
	s.view(func(st *loop.State) {
		e.Approvals = st.PendingApprovals()
		if t := st.Turn; t != nil {
			r := TurnResult{TurnID: t.ID, Items: slices.Clip(t.Items), Usage: t.Used.Usage, Rounds: t.Round}
			e.Partial = (&Finished{Result: r, transcript: slices.Clip(st.Transcript)}).run()
		}
	})
	return e
}

func undecided(st *loop.State, id content.ApprovalID) bool {
	for _, a := range st.PendingApprovals() {
		if a.ID == id {
			return true
		}
	}
	return false
}

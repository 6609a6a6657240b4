package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// DeadLetter reports whether the call is a dead letter that nobody has decided about.
func (c Call) DeadLetter() bool { return c.Letter == LetterDead }

// Retried reports whether a person has the call run once more.
func (c Call) Retried() bool { return c.Letter == LetterRetried }

// letterOf is how a call stands after a result: it is a dead letter if the core answers
// that the outcome is unknown, because whoever ran the last attempt was lost.
func letterOf(c Call, ev events.ToolResultReceived) Letter {
	if ev.Result.Status == content.StatusUnknown && ev.Attempt == 0 && c.Attempt > 0 && c.Lost == c.Attempt {
		return LetterDead
	}
	return NoLetter
}

func (s *State) applySettled(ev events.DeadLetterSettled) {
	c, ok := s.Call(ev.Call)
	switch {
	case !ok:
	case ev.Outcome == events.DeadRetried:
		c.Letter = LetterRetried
	default:
		c.Letter = LetterDropped
		s.Background = slices.DeleteFunc(s.Background, func(b Call) bool { return b.Late && b.Letter == LetterDropped })
	}
}

// DeadLetters lists the dead letters of the session, in the order in which they were called. A
// closed session has none: nothing of it runs again.
func (s *State) DeadLetters() []Call {
	if s.Closed {
		return nil
	}
	all := s.Background
	if s.Turn != nil {
		all = slices.Concat(all, s.Turn.Calls)
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Call) bool { return !c.DeadLetter() })
}

// settleDead decides about a dead letter. One that runs again is beside the turns, as a
// call in the background is: its outcome comes as a notification, and if its worker is
// lost again, it is a dead letter as before.
func (d *decision) settleDead(c commands.SettleDeadLetter) error {
	call, ok := d.Call(c.Call)
	switch {
	case !ok && !d.CallIDs.Has(c.Call):
		return refuse(ReasonUnknownCall, "no call %s", c.Call)
	case ok && call.Retried():
		return refuse(ReasonAlreadyDecided, "call %s runs again already", c.Call)
	case ok && call.Letter == LetterDropped:
		return refuse(ReasonAlreadyDecided, "call %s was dropped", c.Call)
	case !ok || !call.DeadLetter():
		return refuse(ReasonNotDead, "call %s is no dead letter", c.Call)
	case c.Retry && !c.MayRepeat && !call.Routing.Effects.Retryable():
		return refuse(ReasonMayRepeat, "call %s of %s may have taken effect, and running it again may do so twice", c.Call, call.Name)
	case c.Retry && d.cancelling() && call.Turn == d.Turn.ID:
		return refuse(ReasonBusy, "the turn of call %s is being cancelled", c.Call)
	}
	by := c.By
	if by == "" {
		by = d.env.By
	}
	ev := events.DeadLetterSettled{Call: c.Call, Outcome: events.DeadDropped, By: by, Reason: c.Reason}
	if !c.Retry {
		d.emit(ev)
		return nil
	}
	ev.Outcome = events.DeadRetried
	again := d.dispatched(*call)
	again.Route = content.Background
	d.emit(ev, again)
	return nil
}

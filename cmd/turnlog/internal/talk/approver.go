package talk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
)

// question is an approval that the user is asked about.
type question struct {
	events.Approval

	seq      uint64 // the question is in the journal up to here
	asked    bool   // it is on the screen
	decision chan *session.Decision
}

// Approve approves with --yes, and otherwise asks the user at the terminal. Without a
// terminal, it leaves the decision to others.
func (v *conversation) Approve(ctx context.Context, a events.Approval) (approve bool, reason string, err error) {
	x, s := v.current, v.session
	switch {
	case v.yes && s.OpenTurn() == x.turn.ID(): // --yes is not for the turns of others
		return true, "", nil
	case !v.asks:
		return false, "", session.ErrUndecided
	}
	q := &question{Approval: a, seq: s.Head().Seq, decision: make(chan *session.Decision, 1)}
	if !x.do(func() error { x.question = q; return nil }) {
		return false, "", session.ErrUndecided
	}
	select {
	case d := <-q.decision:
		if d == nil {
			return false, "", session.ErrUndecided
		}
		if !d.Always {
			return d.Approve, d.Reason, nil
		}
		if err := s.ResolveApproval(ctx, *d); err != nil && !errors.Is(err, session.ErrInvalidState) {
			return false, "", err
		}
		<-ctx.Done() // it is decided
	case <-ctx.Done(): // it is decided elsewhere, or the turn is cancelled
		x.do(x.withdraw)
	}
	return false, "", context.Cause(ctx)
}

// prompt asks the open question, after everything that led to it was shown, and returns
// where its answer arrives.
func (x *exchange) prompt() <-chan app.Line {
	q := x.question
	if q == nil || x.shown < q.seq {
		return nil
	}
	if !q.asked {
		q.asked = true
		x.show.note("? %s %s", q.Tool, render.Style{Full: true}.Line(string(q.Input)))
		x.show.ask(fmt.Sprintf("  %s. Run it? [y, a for always, n, or n and a reason] ", app.Question(q.Approval)))
	}
	return x.lines()
}

// answered handles the line that follows a question.
func (x *exchange) answered(line app.Line) {
	q := x.question
	d := &session.Decision{Call: q.CallID}
	word, reason, _ := strings.Cut(strings.TrimSpace(line.Text), " ")
	switch word = strings.ToLower(word); {
	case line.Err != nil: // end of input
		x.unanswered()
		x.asks, d = false, nil
	case word == "y" || word == "yes":
		d.Approve = true
	case word == "a" || word == "always":
		d.Approve, d.Always = true, true
	case word == "n" || word == "no":
		d.Reason = strings.TrimSpace(reason)
	default:
		q.asked = false
		return
	}
	q.decision <- d
	x.question = nil
}

// unanswered starts a new line after an open question.
func (x *exchange) unanswered() {
	if x.question != nil && x.question.asked {
		x.show.ask("\n")
	}
}

// withdraw drops the open question.
func (x *exchange) withdraw() error {
	if q := x.question; q != nil && q.asked && !x.cancelled {
		x.unanswered()
		x.show.note("decided elsewhere")
	}
	x.question = nil
	return nil
}

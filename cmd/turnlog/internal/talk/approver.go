package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
)

// approver decides approvals for the turn that a conversation shows.
type approver struct{ v *conversation }

// question is an approval that the user is asked about.
type question struct {
	events.Approval

	seq      uint64 // the question is in the journal up to here
	asked    bool   // it is on the screen
	decision chan<- *session.Decision
	over     <-chan struct{} // it is decided elsewhere, or its turn is cancelled
}

// settled returns a channel that is closed when the question is over.
func (q *question) settled() <-chan struct{} {
	if q == nil {
		return nil
	}
	return q.over
}

// Approve approves with --yes, and otherwise asks the user at the terminal. Without a
// terminal, it leaves the decision to others.
func (p approver) Approve(ctx context.Context, a events.Approval) (approve bool, reason string, err error) {
	x, s := p.v.current, p.v.session
	switch {
	case p.v.yes && s.OpenTurn() == x.turn.ID(): // --yes is not for the turns of others
		return true, "", nil
	case p.v.lines == nil:
		return false, "", session.ErrUndecided
	}
	decision := make(chan *session.Decision, 1)
	q := &question{Approval: a, seq: s.Head().Seq, decision: decision, over: ctx.Done()}
	if !x.do(func() { x.question = q }) {
		return false, "", session.ErrUndecided
	}
	select {
	case d := <-decision:
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
	case <-ctx.Done():
	}
	return false, "", context.Cause(ctx)
}

// prompt asks the open question, after everything that led to it was shown.
func (x *exchange) prompt() {
	q := x.question
	if q == nil || q.asked || x.shown < q.seq {
		return
	}
	q.asked = true
	x.answers = x.lines()
	x.show.note(fmt.Sprintf("? %s %s", q.Tool, render.Style{Full: true}.Line(string(q.Input))))
	x.show.ask(fmt.Sprintf("  %s. Run it? [y, a for always, n, or n and a reason] ", app.Question(q.Approval)))
}

// answered handles the line that follows a question.
func (x *exchange) answered(line app.Line) {
	q := x.question
	d := &session.Decision{Call: q.CallID}
	word, reason, _ := strings.Cut(strings.TrimSpace(line.Text), " ")
	switch word = strings.ToLower(word); {
	case line.Err != nil: // end of input
		x.unanswered()
		x.conversation.lines, d = nil, nil
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
	x.question, x.answers = nil, nil
}

// unanswered starts a new line after an open question.
func (x *exchange) unanswered() {
	if x.question != nil && x.question.asked {
		_, _ = io.WriteString(x.Err, "\n")
	}
}

// withdrawn drops the open question.
func (x *exchange) withdrawn() {
	if x.question.asked && !x.cancelled {
		x.unanswered()
		x.show.note("decided elsewhere")
	}
	x.question, x.answers = nil, nil
}

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
	for seq := s.Head().Seq; x.shown.Load() < seq; { // everything that led to the question is shown first
		select {
		case <-x.moved:
		case <-ctx.Done():
			return false, "", context.Cause(ctx)
		}
	}
	for {
		x.locked(func() {
			x.asking = a.ID
			x.show.note("? %s %s", a.Tool, render.Style{Full: true}.Line(string(a.Input)))
			x.show.ask(fmt.Sprintf("  %s. Run it? [y, a for always, n, or n and a reason] ", app.Question(a)))
		})
		var line app.Line
		select {
		case line = <-v.lines():
			x.locked(func() { x.asking, x.show.asking = "", line.Err != nil })
		case <-ctx.Done(): // it is decided elsewhere, or the turn is cancelled
			return false, "", context.Cause(ctx)
		}
		word, reason, _ := strings.Cut(strings.TrimSpace(line.Text), " ")
		switch word = strings.ToLower(word); {
		case line.Err != nil: // end of input
			v.asks = false
			return false, "", session.ErrUndecided
		case word == "y" || word == "yes":
			return true, "", nil
		case word == "n" || word == "no":
			return false, strings.TrimSpace(reason), nil
		case word == "a" || word == "always":
			err := s.ResolveApproval(ctx, session.Decision{Call: a.CallID, Approve: true, Always: true})
			if err == nil || errors.Is(err, session.ErrInvalidState) {
				<-ctx.Done() // it is decided
				err = context.Cause(ctx)
			}
			return false, "", err
		}
	}
}

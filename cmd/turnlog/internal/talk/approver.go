package talk

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// approver decides approvals while a turn is followed. It belongs to the goroutine that
// waits.
type approver struct {
	decided []content.ApprovalID // decisions that were sent
	asked   *events.Approval     // the question on the screen; nil: none
	answers <-chan app.Line      // from the terminal, while a question is open
	gone    bool                 // the terminal is closed
}

// decide decides approvals, or asks the user at the terminal about the first one. It
// reports false if approvals cannot be decided here.
func (w *wait) decide(ctx context.Context, held []events.Approval) bool {
	g := &w.gate
	if g.asked != nil && !slices.ContainsFunc(held, func(a events.Approval) bool { return a.ID == g.asked.ID }) {
		w.show.note("decided elsewhere")
		g.asked, g.answers = nil, nil
	}
	for _, a := range held {
		switch {
		case slices.Contains(g.decided, a.ID):
		case w.people.yes && w.tracker.mine(): // --yes is not for the turns of others
			w.settle(ctx, a, commands.ResolveApproval{Approve: true})
		case w.people.lines == nil || g.gone:
			return false
		case g.asked == nil:
			g.asked = &a
			g.answers = w.people.lines()
			w.prompt()
		}
	}
	return true
}

// settle sends a decision. Its outcome is in the journal.
func (w *wait) settle(ctx context.Context, a events.Approval, c commands.ResolveApproval) {
	c.Approval, c.By = a.ID, w.people.name
	w.gate.decided = append(w.gate.decided, a.ID)
	w.send(ctx, ulid.Make().String(), c)
}

func (w *wait) prompt() {
	a := w.gate.asked
	w.show.note(fmt.Sprintf("? %s %s", a.Tool, render.Style{Full: true}.Line(string(a.Input))))
	w.show.ask(fmt.Sprintf("  %s. Run it? [y, a for always, n, or n and a reason] ", app.Question(*a)))
}

// answered takes what was app.Line behind the question.
func (w *wait) answered(ctx context.Context, t app.Line) {
	g := &w.gate
	word, reason, _ := strings.Cut(strings.TrimSpace(t.Text), " ")
	switch word = strings.ToLower(word); {
	case t.Err != nil: // end of input
		g.gone = true
	case word == "y" || word == "yes":
		w.settle(ctx, *g.asked, commands.ResolveApproval{Approve: true})
	case word == "a" || word == "always":
		w.settle(ctx, *g.asked, commands.ResolveApproval{Approve: true, Always: true})
	case word == "n" || word == "no":
		w.settle(ctx, *g.asked, commands.ResolveApproval{Reason: strings.TrimSpace(reason)})
	default:
		w.prompt()
		return
	}
	g.asked, g.answers = nil, nil
}

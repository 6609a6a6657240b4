package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/session"
)

// news is the new message of a chat request. Clients send the earlier messages again each time.
type news struct {
	earlier []string // the user's earlier messages
	input   content.Item
	model   string // "": any
	alone   bool   // the client did not send the earlier messages
}

// say starts a turn with the new message of a chat. A message that already started a turn does not start another one:
// the client gets the existing turn again.
func (g *Gateway) say(ctx context.Context, s seen, n news, command string) (turn int, again bool, f feed.Following, err error) {
	if !person(ctx).MayDrive(s.subject) {
		return 0, false, f, problem.MayNot("send input to a session that you did not open")
	}
	turn, _, err = g.causedBy(ctx, s, command, []content.Item{n.input})
	if problem.Is(err, http.StatusUnprocessableEntity) {
		err = otherHistory("the session already has another message with this ID or key")
	}
	if again = turn > 0; again {
		n.earlier = append(slices.Clone(n.earlier), n.input.Text())
	}
	if err == nil && !n.alone {
		err = g.checkEarlier(ctx, s, n.earlier)
	}
	if err != nil || again {
		return turn, again, f, err
	}
	if err := fits(s, n.model, ""); err != nil {
		return 0, false, f, err
	}
	turn, f, err = g.submit(ctx, s, command, []content.Item{n.input})
	return turn, false, f, err
}

// checkEarlier returns an error unless the client's earlier messages match the session's. In a long session, only the newest
// turns must match, since clients need not keep more.
func (g *Gateway) checkEarlier(ctx context.Context, s seen, earlier []string) error {
	differs := otherHistory("the user messages of the chat differ from those of its session")
	if s.state.Rewritten == 0 { // otherwise only the journal has all messages
		all := stream.SaidBy(s.state.Transcript)
		more := len(all) - len(earlier)
		switch {
		case more < 0 || !slices.Equal(all[more:], earlier) || more > 0 && s.state.Turns <= keptTurns:
			return differs
		case more == 0:
			return nil
		}
	}
	h, whole, err := g.uiHistory(ctx, s)
	if err != nil {
		return err
	}
	all := h.UserTexts()
	more := len(earlier) - len(all)
	if more < 0 || more > 0 && whole || !slices.Equal(earlier[more:], all) {
		return differs
	}
	return nil
}

// messageKey returns the command ID for a message, so a message that is sent again is the same command.
func messageKey(key CommandKey, message string) (string, error) {
	if id, ok := stream.CommandID(message, minKey); ok && key.Key == "" {
		key.Key = id
	}
	return key.command()
}

func otherHistory(detail string) *problem.Problem {
	return problem.New(http.StatusConflict, "history_differs", detail,
		"history cannot be changed: append a message to what GET /api/chat/{id} returns, or fork the session with POST /api/sessions/{id}/fork")
}

// resolve sends decisions to a session and returns the parts of the turn that begin with them. It skips a question that
// already has the same decision. A different one is an error.
func (g *Gateway) resolve(ctx context.Context, s seen, all []stream.Decision, key CommandKey) (turn, first, last int, err error) {
	if !person(ctx).MayDecide(s.subject) {
		return 0, 0, 0, problem.MayNot("decide what this session asks")
	}
	command, err := key.command()
	if err != nil {
		return 0, 0, 0, err
	}
	for i, d := range all {
		a, pending := pendingAbout(s.state.PendingApprovals(), d.Approval)
		if !pending {
			continue
		}
		if d.Shown != "" && d.Shown != a.Digest { // another person changed the arguments
			return 0, 0, 0, problem.Changed()
		}
		v := commands.ResolveApproval{Approval: d.Approval, Approve: d.Approve, Reason: d.Reason, Input: d.Input, By: person(ctx).Name, Shown: statement.Shown(a)}
		_, err := g.ask(ctx, s, CommandKey{command + "-" + strconv.Itoa(i)}, v)
		switch refused, ok := errors.AsType[*session.InvalidStateError](err); {
		case ok && refused.Reason == commands.ReasonChanged:
			return 0, 0, 0, problem.Changed()
		case err != nil && (!ok || problem.Hopeless(refused.Reason)):
			return 0, 0, 0, err
		}
	}
	turn, _, _, err = content.ParsePlace(string(report.PlaceOf(content.CallID(all[0].Approval))))
	if err != nil {
		return 0, 0, 0, problem.Unprocessable("bad_messages", err.Error(), "send the IDs of questions unchanged")
	}
	at, err := g.turnAt(ctx, s, turn)
	if err != nil {
		return 0, 0, 0, err
	}
	missing := slices.Clone(all)
	probe := stream.NewTurn(turn)
	for rec, err := range g.shown(ctx, s.state.Session, at, probe.Skip) {
		if err != nil {
			return 0, 0, 0, err
		}
		for _, ev := range rec.Entry.Events {
			e, ok := ev.(events.ApprovalResolved)
			i := slices.IndexFunc(missing, func(d stream.Decision) bool { return d.Approval == e.Approval })
			if !ok || i < 0 {
				continue
			}
			if missing[i].Approve != (e.Outcome == events.Approved) {
				return 0, 0, 0, problem.Refusal(&session.InvalidStateError{Reason: commands.ReasonAlreadyDecided, Detail: string(e.Approval) + " is already decided: " + string(e.Outcome)})
			}
			if missing, last = slices.Delete(missing, i, i+1), probe.Part(); first == 0 {
				first = last
			}
		}
		if len(missing) == 0 {
			return turn, first, last, nil
		}
	}
	return 0, 0, 0, problem.Refusal(&session.InvalidStateError{Reason: commands.ReasonNoApproval, Detail: "the session does not ask " + string(missing[0].Approval)})
}

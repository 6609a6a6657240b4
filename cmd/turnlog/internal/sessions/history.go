package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// history is what a session's journal says about its calls.
type history struct {
	state *loop.State
	calls []*pastCall // in order
}

// pastCall is a call and what happened to it. Its JSON is that of a dead letter.
type pastCall struct {
	Session  content.SessionID `json:"session"`
	Call     content.CallID    `json:"call"`
	Tool     string            `json:"tool"`
	State    string            `json:"state"` // dead, again, dropped, over: it has an outcome, or its session is closed; aside: a session, not a call
	Effects  string            `json:"effects"`
	Queue    string            `json:"queue"`
	Turn     content.TurnID    `json:"turn"`
	Round    int               `json:"round"`
	Input    json.RawMessage   `json:"input"`
	Model    json.RawMessage   `json:"model_input,omitempty"` // what the model gave, if it was changed
	Attempts int               `json:"attempts"`              // that were dispatched
	Lost     []lostAttempt     `json:"lost"`
	Settled  []settlement      `json:"settled"` // by people
	Result   string            `json:"result"`  // the status of its last result, or ""

	place     content.Place
	questions []*question
}

// question is an approval of a call and how it was decided.
type question struct {
	app.Approval
	Outcome events.Outcome `json:"outcome"` // pending, approved, denied, expired, cancelled or moot
	Decided string         `json:"decided"` // how, by whom and when; "": it is pending
}

// pending is the outcome of a question without a decision.
const pending events.Outcome = "pending"

// lostAttempt is an attempt whose worker was lost.
type lostAttempt struct {
	Attempt int          `json:"attempt"`
	At      content.Time `json:"at"`
	Reason  string       `json:"reason"`
}

// settlement is what a person decided about a dead letter.
type settlement struct {
	Outcome events.Settlement `json:"outcome"`
	By      string            `json:"by"`
	User    string            `json:"user,omitempty"` // verified, see content.Sender
	Reason  string            `json:"reason"`
	At      content.Time      `json:"at"`
}

// readHistory reads the journal of a session that was not deleted.
func readHistory(ctx context.Context, c *client.Client, id content.SessionID) (*history, error) {
	state, err := app.ReadSession(ctx, c, id)
	if err != nil {
		return nil, err
	}
	h := &history{state: state}
	for u, err := range c.Follow(ctx, id, 0) {
		switch {
		case err != nil:
			return nil, err
		case u.Record == nil:
			continue
		case u.Record.Err != nil:
			return nil, fmt.Errorf("session %s, entry %d: %w", id, u.Record.Seq, u.Record.Err)
		}
		for _, ev := range u.Record.Entry.Events {
			h.note(ev, u.Record.Entry.At)
		}
		if u.Record.Seq >= state.Seq {
			break
		}
	}
	for _, c := range h.calls {
		c.State = h.standing(c)
	}
	return h, nil
}

// call returns a call, or an empty one. Events are mostly about the latest calls.
func (h *history) call(id content.CallID) *pastCall {
	for _, c := range slices.Backward(h.calls) {
		if c.Call == id {
			return c
		}
	}
	return &pastCall{}
}

// find returns the call with an ID that some command prints: its own, its place, or that of
// one of its approvals.
func (h *history) find(id content.CallID) (*pastCall, error) {
	for _, c := range slices.Backward(h.calls) {
		if c.Call == id || c.place == placeOf(id) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("session %[1]s has no call %[2]s: \"turnlog calls %[1]s\" lists the open ones", h.state.Session, id)
}

// note folds an event of the kinds that matter here. It comes as any, since a switch over
// events.Event must have all kinds.
func (h *history) note(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		c := &pastCall{
			Session: h.state.Session, Call: ev.Call.ID, Tool: ev.Call.Name, Effects: effectsName(ev.Routing.Effects),
			Queue: ev.Routing.Queue, Turn: ev.Turn, Round: ev.Round, Input: ev.Call.Input, Lost: []lostAttempt{}, Settled: []settlement{},
			place: ev.Call.Place,
		}
		h.calls = append(h.calls, c)
	case events.ToolDispatched:
		c := h.call(ev.Call)
		c.Attempts = ev.Attempt
		c.patch(ev.Input)
	case events.ToolAttemptLost:
		c := h.call(ev.Call)
		c.Lost = append(c.Lost, lostAttempt{ev.Attempt, at, ev.Reason})
	case events.ToolResultReceived:
		h.call(ev.Result.CallID).Result = string(ev.Result.Status)
	case events.DeadLetterSettled:
		c := h.call(ev.Call)
		c.Settled = append(c.Settled, settlement{ev.Outcome, ev.By, ev.User, ev.Reason, at})
	case events.ApprovalRequired:
		c := h.call(ev.Approval.CallID)
		c.questions = append(c.questions, &question{Approval: app.ApprovalOf(ev.Approval), Outcome: pending})
	case events.ApprovalResolved:
		c := h.call(ev.Call)
		c.patch(ev.Input)
		for _, q := range c.questions {
			if q.ID == ev.Approval {
				q.Outcome, q.Decided = ev.Outcome, decided(ev, at)
			}
		}
	}
}

// patch replaces the input.
func (c *pastCall) patch(input json.RawMessage) {
	if len(input) == 0 {
		return
	}
	if c.Model == nil {
		c.Model = c.Input
	}
	c.Input = input
}

// decision says how the last decided question was decided, or "".
func (c *pastCall) decision() string {
	for _, q := range slices.Backward(c.questions) {
		if q.Decided != "" {
			return q.Decided
		}
	}
	return ""
}

// decided says who decided what, and when.
func decided(ev events.ApprovalResolved, at content.Time) string {
	text := string(ev.Outcome)
	if ev.Outcome == events.Moot {
		text = "another question about the call was denied"
	}
	if by := ev.Decider(); by != "" {
		text += " by " + by
	}
	if ev.Reason != "" {
		text += ": " + ev.Reason
	}
	return text + ", " + at.String()
}

// standing returns the state of a call as a dead letter.
func (h *history) standing(p *pastCall) string {
	c, ok := h.state.Call(p.Call)
	last := len(p.Settled) - 1
	switch {
	case ok && c.Letter == loop.LetterDropped, !ok && last >= 0 && p.Settled[last].Outcome == events.DeadDropped:
		return string(loop.LetterDropped)
	case !ok || h.state.Closed || c.Letter == loop.NoLetter:
		return "over"
	}
	return string(c.Letter)
}

// dead returns the session's dead letters.
func (h *history) dead() []*pastCall {
	return slices.DeleteFunc(slices.Clone(h.calls), func(p *pastCall) bool {
		return !slices.ContainsFunc(h.state.DeadLetters(), func(c loop.Call) bool { return c.ID == p.Call })
	})
}

// deadLetter returns a call that lost workers, or says why there is none.
func (h *history) deadLetter(id content.CallID) (*pastCall, error) {
	c, err := h.find(id)
	if err == nil && len(c.Lost) == 0 {
		err = fmt.Errorf("%s (call %s) is not a dead letter: none of its workers was lost", c.Tool, c.Call)
	}
	return c, err
}

// notPending says why a call has no pending approval.
func notPending(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) error {
	h, err := readHistory(ctx, c, id)
	if err != nil {
		return err
	}
	p, err := h.find(call)
	switch {
	case err != nil:
		return err
	case p.decision() != "":
		return fmt.Errorf("%s (call %s) is already decided: %s", p.Tool, p.Call, p.decision())
	default:
		return fmt.Errorf("%s (call %s) needs no approval", p.Tool, p.Call)
	}
}

// effectsName returns what a tool declares about running twice, as users write it.
func effectsName(e content.Effects) string {
	if e == content.Once {
		return "once"
	}
	return string(e)
}

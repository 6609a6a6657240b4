package report

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// History is what a session's journal says about its calls.
type History struct {
	State *loop.State
	Calls []*Call // in order
}

// Call is a call and what happened to it. Its JSON is that of a dead letter.
type Call struct {
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
	Lost     []LostAttempt     `json:"lost"`
	Settled  []Settlement      `json:"settled"` // by people
	Result   string            `json:"result"`  // the status of its last result, or ""

	place     content.Place
	Questions []*Question `json:"-"`
}

// Question is an approval of a call and how it was decided.
type Question struct {
	Approval
	Outcome events.Outcome `json:"outcome"` // pending, approved, denied, expired, cancelled or moot
	Decided string         `json:"decided"` // how, by whom and when; "": it is pending
}

// Pending is the outcome of a question without a decision.
const Pending events.Outcome = "pending"

// LostAttempt is an attempt whose worker was lost.
type LostAttempt struct {
	Attempt int          `json:"attempt"`
	At      content.Time `json:"at"`
	Reason  string       `json:"reason"`
}

// Settlement is what a person decided about a dead letter.
type Settlement struct {
	Outcome events.Settlement `json:"outcome"`
	By      string            `json:"by"`
	User    string            `json:"user,omitempty"` // verified, see content.Sender
	Reason  string            `json:"reason"`
	At      content.Time      `json:"at"`
}

// ReadHistory reads the journal of a session that was not deleted.
func ReadHistory(ctx context.Context, c *client.Client, id content.SessionID) (*History, error) {
	state, err := Read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	h := &History{State: state}
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
	for _, c := range h.Calls {
		c.State = h.standing(c)
	}
	return h, nil
}

// call returns a call, or an empty one. Events are mostly about the latest calls.
func (h *History) call(id content.CallID) *Call {
	for _, c := range slices.Backward(h.Calls) {
		if c.Call == id {
			return c
		}
	}
	return &Call{}
}

// Find returns the call with an ID that some list shows, or nil: its own, its place, or that of one of
// its approvals.
func (h *History) Find(id content.CallID) *Call {
	for _, c := range slices.Backward(h.Calls) {
		if c.Call == id || c.place == PlaceOf(id) {
			return c
		}
	}
	return nil
}

// PlaceOf returns the place in the ID of an approval.
func PlaceOf(id content.CallID) content.Place {
	place, _, _ := strings.Cut(string(id), "-g")
	return content.Place(place)
}

// note folds an event of the kinds that matter here. It comes as any, since a switch over
// events.Event must have all kinds.
func (h *History) note(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		c := &Call{
			Session: h.State.Session, Call: ev.Call.ID, Tool: ev.Call.Name, Effects: EffectsName(ev.Routing.Effects),
			Queue: ev.Routing.Queue, Turn: ev.Turn, Round: ev.Round, Input: ev.Call.Input, Lost: []LostAttempt{}, Settled: []Settlement{},
			place: ev.Call.Place,
		}
		h.Calls = append(h.Calls, c)
	case events.ToolDispatched:
		c := h.call(ev.Call)
		c.Attempts = ev.Attempt
		c.patch(ev.Input)
	case events.ToolAttemptLost:
		c := h.call(ev.Call)
		c.Lost = append(c.Lost, LostAttempt{ev.Attempt, at, ev.Reason})
	case events.ToolResultReceived:
		h.call(ev.Result.CallID).Result = string(ev.Result.Status)
	case events.DeadLetterSettled:
		c := h.call(ev.Call)
		c.Settled = append(c.Settled, Settlement{ev.Outcome, ev.By, ev.User, ev.Reason, at})
	case events.ApprovalRequired:
		c := h.call(ev.Approval.CallID)
		c.Questions = append(c.Questions, &Question{Approval: ApprovalOf(ev.Approval), Outcome: Pending})
	case events.ApprovalResolved:
		c := h.call(ev.Call)
		c.patch(ev.Input)
		for _, q := range c.Questions {
			if q.ID == ev.Approval {
				q.Outcome, q.Decided = ev.Outcome, decided(ev, at)
			}
		}
	}
}

// patch replaces the input.
func (c *Call) patch(input json.RawMessage) {
	if len(input) == 0 {
		return
	}
	if c.Model == nil {
		c.Model = c.Input
	}
	c.Input = input
}

// Decision says how the last decided question was decided, or "".
func (c *Call) Decision() string {
	for _, q := range slices.Backward(c.Questions) {
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
func (h *History) standing(p *Call) string {
	c, ok := h.State.Call(p.Call)
	last := len(p.Settled) - 1
	switch {
	case ok && c.Letter == loop.LetterDropped, !ok && last >= 0 && p.Settled[last].Outcome == events.DeadDropped:
		return string(loop.LetterDropped)
	case !ok || h.State.Closed || c.Letter == loop.NoLetter:
		return "over"
	}
	return string(c.Letter)
}

// Dead returns the session's dead letters.
func (h *History) Dead() []*Call {
	return slices.DeleteFunc(slices.Clone(h.Calls), func(p *Call) bool {
		return !slices.ContainsFunc(h.State.DeadLetters(), func(c loop.Call) bool { return c.ID == p.Call })
	})
}

// EffectsName returns what a tool declares about running twice, as users write it.
func EffectsName(e content.Effects) string {
	if e == content.Once {
		return "once"
	}
	return string(e)
}

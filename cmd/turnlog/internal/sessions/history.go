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
	State    string            `json:"state"` // dead, again, dropped, or over: it has an outcome, or its session is closed
	Effects  string            `json:"effects"`
	Queue    string            `json:"queue"`
	Turn     content.TurnID    `json:"turn"`
	Round    int               `json:"round"`
	Input    json.RawMessage   `json:"input"`
	Attempts int               `json:"attempts"` // that were dispatched
	Lost     []lostAttempt     `json:"lost"`
	Settled  []settlement      `json:"settled"` // by people
	Result   string            `json:"result"`  // the status of its last result, or ""

	decision string // how its last approval was decided, or ""
}

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

// note folds an event of the kinds that matter here. It comes as any, since a switch over
// events.Event must have all kinds.
func (h *history) note(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		c := &pastCall{
			Session: h.state.Session, Call: ev.Call.ID, Tool: ev.Call.Name, Effects: effectsName(ev.Routing.Effects),
			Queue: ev.Routing.Queue, Turn: ev.Turn, Round: ev.Round, Input: ev.Call.Input, Lost: []lostAttempt{}, Settled: []settlement{},
		}
		h.calls = append(h.calls, c)
	case events.ToolDispatched:
		c := h.call(ev.Call)
		c.Attempts = ev.Attempt
		if len(ev.Input) > 0 {
			c.Input = ev.Input
		}
	case events.ToolAttemptLost:
		c := h.call(ev.Call)
		c.Lost = append(c.Lost, lostAttempt{ev.Attempt, at, ev.Reason})
	case events.ToolResultReceived:
		h.call(ev.Result.CallID).Result = string(ev.Result.Status)
	case events.DeadLetterSettled:
		c := h.call(ev.Call)
		c.Settled = append(c.Settled, settlement{ev.Outcome, ev.By, ev.Reason, at})
	case events.ApprovalResolved:
		h.call(ev.Call).decision = decided(ev, at)
	}
}

// decided says who decided what, and when.
func decided(ev events.ApprovalResolved, at content.Time) string {
	text := string(ev.Outcome)
	if ev.Outcome == events.Moot {
		text = "another question about the call was denied"
	}
	if ev.By != "" {
		text += " by " + ev.By
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
	switch c := h.call(id); {
	case c.Call == "":
		return nil, fmt.Errorf("session %s has no call %s: \"turnlog dead ls %s\" lists its dead letters", h.state.Session, id, h.state.Session)
	case len(c.Lost) == 0:
		return nil, fmt.Errorf("%s (call %s) is not a dead letter: none of its workers was lost", c.Tool, id)
	default:
		return c, nil
	}
}

// notPending says why a call has no pending approval.
func notPending(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) error {
	h, err := readHistory(ctx, c, id)
	if err != nil {
		return err
	}
	switch p := h.call(call); {
	case p.Call == "":
		return fmt.Errorf("session %s has no call %s: \"turnlog approvals ls %s\" lists what is pending", id, call, id)
	case p.decision != "":
		return fmt.Errorf("%s (call %s) is already decided: %s", p.Tool, call, p.decision)
	default:
		return fmt.Errorf("%s (call %s) needs no approval", p.Tool, call)
	}
}

// effectsName returns what a tool declares about running twice, as users write it.
func effectsName(e content.Effects) string {
	if e == content.Once {
		return "once"
	}
	return string(e)
}

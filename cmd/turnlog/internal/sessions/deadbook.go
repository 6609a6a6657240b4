package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// deadLetter is what a journal tells of a call that lost its workers.
type deadLetter struct {
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
	Settled  []deadSettlement  `json:"settled"` // by people
	Result   string            `json:"result"`  // the status of its last result; "": none yet
}

// lostAttempt is an attempt whose worker was lost.
type lostAttempt struct {
	Attempt int          `json:"attempt"`
	At      content.Time `json:"at"`
	Reason  string       `json:"reason"`
}

// deadSettlement is what a person did about a dead letter.
type deadSettlement struct {
	Outcome events.Settlement `json:"outcome"`
	By      string            `json:"by"`
	Reason  string            `json:"reason"`
	At      content.Time      `json:"at"`
}

// deadbook is what a session's journal tells of its calls that lost workers.
type deadbook struct {
	state *loop.State
	calls map[content.CallID]*deadLetter // all of the session
	order []content.CallID
}

func readDead(ctx context.Context, cell *jetstream.Cell, id content.SessionID) (*deadbook, error) {
	b := &deadbook{state: loop.New(id), calls: make(map[content.CallID]*deadLetter)}
	if err := foldNoting(ctx, cell, b.state, b.note); err != nil {
		return nil, err
	}
	if b.state.Deleted != nil {
		return nil, &client.DeletedError{Session: id, Deletion: *b.state.Deleted}
	}
	for _, c := range b.calls {
		c.State = b.standing(c.Call)
	}
	return b, nil
}

// note takes in an event of the kinds that matter here. It comes as any, since a
// switch over events.Event must know all kinds.
func (b *deadbook) note(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		c := &deadLetter{
			Session: b.state.Session, Call: ev.Call.ID, Tool: ev.Call.Name, Effects: effectsName(ev.Routing.Effects),
			Queue: ev.Routing.Queue, Turn: ev.Turn, Round: ev.Round, Input: ev.Call.Input, Lost: []lostAttempt{}, Settled: []deadSettlement{},
		}
		b.calls[ev.Call.ID] = c
		b.order = append(b.order, ev.Call.ID)
	case events.ToolDispatched:
		if c := b.calls[ev.Call]; c != nil {
			c.Attempts = ev.Attempt
			if len(ev.Input) > 0 {
				c.Input = ev.Input
			}
		}
	case events.ToolAttemptLost:
		if c := b.calls[ev.Call]; c != nil {
			c.Lost = append(c.Lost, lostAttempt{ev.Attempt, at, ev.Reason})
		}
	case events.ToolResultReceived:
		if c := b.calls[ev.Result.CallID]; c != nil {
			c.Result = string(ev.Result.Status)
		}
	case events.DeadLetterSettled:
		if c := b.calls[ev.Call]; c != nil {
			c.Settled = append(c.Settled, deadSettlement{ev.Outcome, ev.By, ev.Reason, at})
		}
	}
}

// standing says how a call stands now.
func (b *deadbook) standing(id content.CallID) string {
	c, ok := b.state.Call(id)
	switch {
	case ok && c.Letter == loop.LetterDropped:
		return string(loop.LetterDropped)
	case !ok && b.dropped(id):
		return string(loop.LetterDropped)
	case !ok || b.state.Closed || c.Letter == loop.NoLetter:
		return "over"
	}
	return string(c.Letter)
}

// dropped reports whether the last word about a call is that nobody runs it again.
func (b *deadbook) dropped(id content.CallID) bool {
	s := b.calls[id].Settled
	return len(s) > 0 && s[len(s)-1].Outcome == events.DeadDropped
}

// dead lists the session's dead letters.
func (b *deadbook) dead() []*deadLetter {
	var out []*deadLetter
	for _, id := range b.order {
		if slices.ContainsFunc(b.state.DeadLetters(), func(c loop.Call) bool { return c.ID == id }) {
			out = append(out, b.calls[id])
		}
	}
	return out
}

// find returns a call that lost workers, or says why there is none.
func (b *deadbook) find(id content.CallID) (*deadLetter, error) {
	c, known := b.calls[id]
	switch {
	case !known:
		return nil, fmt.Errorf("session %s has no call %s: \"turnlog dead ls %s\" lists its dead letters", b.state.Session, id, b.state.Session)
	case len(c.Lost) == 0:
		return nil, fmt.Errorf("%s (call %s) is no dead letter: none of its workers was lost", c.Tool, id)
	}
	return c, nil
}

// effectsName is what a tool declares of running twice, as people write it.
func effectsName(e content.Effects) string {
	if e == content.Once {
		return "once"
	}
	return string(e)
}

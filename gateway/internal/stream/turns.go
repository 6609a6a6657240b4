package stream

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Turns projects a stream onto all turns that start in it, in the steps of [Turn]. Instead of Joined, it yields an InputTaken for
// each item of input. A call in the background is answered again when its result arrives, even many turns later.
type Turns struct {
	turn       *Turn // the last one; nil: none
	queue      []waiting
	background []*ToolCall
}

// waiting is input that is not part of a turn yet.
type waiting struct {
	events.InputQueued

	command string
}

// InputTaken is an item of input that becomes part of a turn.
type InputTaken struct {
	Turn    content.TurnID
	Item    content.Item
	Command string // the command that sent the input; "": none, or it came before the stream begins
}

func (InputTaken) step() {}

// Turn returns the ID of the open turn, or of the last one, or "".
func (t *Turns) Turn() content.TurnID {
	if t.turn == nil {
		return ""
	}
	return t.turn.id
}

// Calls returns the calls of the current round and the calls in the background.
func (t *Turns) Calls() []*ToolCall {
	if t.turn == nil {
		return nil
	}
	return append(slices.Clone(t.background), t.turn.Calls()...)
}

// Show handles an event of the stream and yields the steps that follow from it.
func (t *Turns) Show(ev Event, yield func(Step)) {
	if ev.Entry != nil {
		for _, e := range ev.Entry.Entry.Events {
			if q, ok := e.(events.InputQueued); ok {
				t.queue = append(t.queue, waiting{q, ev.Entry.Entry.Cause})
			}
		}
	}
	take := func(s Step) { t.take(s, yield) }
	if t.turn != nil {
		t.turn.Show(ev, take)
	}
	if ev.Entry == nil {
		return
	}
	for _, e := range ev.Entry.Entry.Events {
		switch e := any(e).(type) {
		case events.InputAccepted:
			if e.Turn != t.Turn() {
				t.input(e, false, yield)
			}
		case events.TurnStarted:
			t.turn = NewTurn(e.Turn.Number())
			t.turn.Show(ev, take)
		case events.ToolResultReceived:
			t.arrive(e, yield)
		}
	}
}

func (t *Turns) take(s Step, yield func(Step)) {
	switch e := s.(type) {
	case Joined:
		t.input(e.Input, true, yield)
		return
	case CallAnswered:
		if e.Detached {
			t.background = append(t.background, e.Call)
		}
	case InputTaken, PartBegan, PartPaused, RoundBegan, RoundEnded, AttemptBegan, AttemptFailed, Grown, Voided, Replied, Decided, CallStarted, Used, Ended:
	}
	yield(s)
}

// input yields the items of input, with the commands that queued them.
func (t *Turns) input(in events.InputAccepted, open bool, yield func(Step)) {
	var commands []string
	joins := func(q waiting) bool {
		switch in.Origin {
		case events.FromHost, events.FromParent:
			return q.Task == nil && (!open || q.OnBusy == events.Steer)
		case events.FromTask:
			return q.Task != nil && len(commands) == 0
		case events.FromNotification, events.FromVerifier, events.FromSchema:
		}
		return false
	}
	t.queue = slices.DeleteFunc(t.queue, func(q waiting) bool {
		if !joins(q) {
			return false
		}
		for range q.Items {
			commands = append(commands, q.command)
		}
		return true
	})
	before := max(0, len(in.Items)-len(commands)) // items that were queued before the stream begins
	for i, it := range in.Items {
		h := InputTaken{Turn: in.Turn, Item: it}
		if i >= before && i-before < len(commands) {
			h.Command = commands[i-before]
		}
		yield(h)
	}
}

// arrive answers a call in the background.
func (t *Turns) arrive(e events.ToolResultReceived, yield func(Step)) {
	i := slices.IndexFunc(t.background, func(c *ToolCall) bool { return c.ID == e.Result.CallID })
	if i < 0 {
		return
	}
	c := t.background[i]
	t.background = slices.Delete(t.background, i, i+1)
	yield(CallAnswered{c, e.Result, false})
}

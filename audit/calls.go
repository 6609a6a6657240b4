package audit

import (
	"bytes"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// callsAsReplied: the calls follow directly after the reply and its usage.
func callsAsReplied() rule {
	var due []content.ToolCall
	next := 0
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.ReplyRecorded:
			due, next = nil, 0
			for _, it := range ev.Items {
				due = append(due, it.Calls()...)
			}
		case events.UsageUpdated:
		case events.ToolCallRequested:
			next++
			want := content.PlaceOf(turnNumber(ev.Turn), ev.Round, next)
			if _, used := f.ledger.calls[ev.Call.ID]; used {
				f.fail("call %s is requested, but an earlier call has that id", ev.Call.ID)
			}
			if ev.Call.Place != want {
				f.fail("call %s is at %s, want %s", ev.Call.ID, ev.Call.Place, want)
			}
			switch {
			case len(due) == 0:
				f.fail("call %s is requested, but the reply does not ask for it", ev.Call.ID)
				return
			case !sameCall(due[0], ev.Call):
				f.fail("call %s of %s is requested, but the reply asks for %s of %s", ev.Call.ID, ev.Call.Name, due[0].ID, due[0].Name)
			}
			due = due[1:]
		default:
			if len(due) > 0 {
				f.fail("a %T comes before call %s of the reply is requested", f.event, due[0].ID)
				due = nil
			}
		}
	}
}

func sameCall(a, b content.ToolCall) bool {
	return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Input, b.Input)
}

func oneTerminalResult() rule {
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.ToolDetached:
			switch c, known := f.ledger.calls[ev.Call]; {
			case !known:
				f.fail("call %s is detached, but was never requested", ev.Call)
			case c.answered():
				f.fail("call %s is detached, but has its answer", ev.Call)
			}
		case events.ToolResultReceived:
			c, known := f.ledger.calls[ev.Result.CallID]
			switch {
			case !known:
				f.fail("a result for call %s, which was never requested", ev.Result.CallID)
			case ev.Late:
				lateResult(f, c)
			case c.status != "":
				f.fail("call %s gets a second result, after %s", c.ID, c.status)
			case c.waits:
				f.fail("call %s was answered by a placeholder, but its outcome is not late", c.ID)
			case c.turn != ev.Turn || c.round != ev.Round:
				f.fail("call %s of %s, round %d, gets a result in %s, round %d", c.ID, c.turn, c.round, ev.Turn, ev.Round)
			}
		case events.TurnFinished:
			if id, waiting := f.ledger.unanswered(); waiting {
				f.fail("%s finishes while call %s is unanswered", ev.Turn, id)
			}
		}
	}
}

func lateResult(f *fact, c *call) {
	switch {
	case c.late && !c.again:
		f.fail("call %s gets a second late result", c.ID)
	case c.waits, c.status == content.StatusUnknown, c.status == content.StatusCancelled && c.attempt > 0:
	case c.status == "":
		f.fail("call %s gets a late result, but has no answer yet", c.ID)
	default:
		f.fail("call %s gets a late result, but its outcome was known: %s", c.ID, c.status)
	}
}

// dispatchBeforeResult: attempts of a call are numbered from 1. The next attempt starts only after
// the previous one is lost. The same attempt starts again only after a late question. No attempt
// starts after the answer, unless a person retries a dead letter. A result that only a run can
// produce belongs to an attempt.
func dispatchBeforeResult() rule {
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.ToolDispatched:
			c, known := f.ledger.calls[ev.Call]
			if !known {
				f.fail("call %s starts, but was never requested", ev.Call)
				return
			}
			if c.Place != ev.Place {
				f.fail("call %s starts at %s, but is at %s", ev.Call, ev.Place, c.Place)
			}
			dispatched(f, c, ev)
		case events.ToolAttemptLost:
			if c := f.ledger.of(ev.Call); !c.running || c.attempt != ev.Attempt {
				f.fail("attempt %d of call %s is lost, but was not running", ev.Attempt, ev.Call)
			}
		case events.DeadLetterSettled:
			if !f.ledger.of(ev.Call).dead {
				f.fail("call %s is %s as a dead letter, but is not one", ev.Call, ev.Outcome)
			}
		case events.ToolDetached:
			if c, known := f.ledger.calls[ev.Call]; known && c.attempt == 0 {
				f.fail("call %s is detached, but was never started", ev.Call)
			}
		case events.ToolResultReceived:
			c, known := f.ledger.calls[ev.Result.CallID]
			switch {
			case !known:
			case f.ledger.resumed && ev.Attempt == 0:
			case c.attempt == 0 && (ev.Attempt > 0 || ev.Late || ran(ev.Result.Status)):
				f.fail("call %s has the result %s of a run, but was never started", c.ID, ev.Result.Status)
			case ev.Attempt > c.attempt:
				f.fail("call %s has a result of attempt %d, but the last one to start was %d", c.ID, ev.Attempt, c.attempt)
			}
		}
	}
}

func dispatched(f *fact, c *call, ev events.ToolDispatched) {
	again := c.attempt > 0 && ev.Attempt == c.attempt
	switch {
	case c.ended():
		f.fail("call %s starts, but has its result", ev.Call)
	case again && !c.asked:
		f.fail("attempt %d of call %s starts twice", ev.Attempt, ev.Call)
	case again:
	case c.running:
		f.fail("attempt %d of call %s starts while attempt %d is running", ev.Attempt, ev.Call, c.attempt)
	case ev.Attempt != c.attempt+1:
		f.fail("attempt %d of call %s starts, want attempt %d", ev.Attempt, ev.Call, c.attempt+1)
	}
}

// ran reports whether only a call that started can end with this status.
func ran(s content.Status) bool { return s == content.StatusOK || s == content.StatusUnknown }

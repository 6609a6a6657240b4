package audit

import (
	"fmt"
	"hash/maphash"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// causeOnce: earlier releases remembered only the latest causes of asks, so an older ID could name another command. A
// journal does not say which release wrote it.
func causeOnce() rule {
	return func(f *fact) {
		if f.index > 0 {
			return
		}
		cause := f.entry.Cause
		switch before, twice := f.checker.causes.last(cause); {
		case cause == "":
			f.fail("it names no command as its cause")
		case twice && f.entry.Seq-before > loop.CausesKept:
			f.checker.warn(verdict.Forged, f.entry.Seq, f.invariant, "another command %s caused entry %d", cause, before)
		case twice:
			f.fail("command %s already caused entry %d", cause, before)
		}
	}
}

// causers has the last entry of each cause, by two hashes of the cause: a journal has as many causes as entries, and
// complete causes would take most of the memory. Two causes with the same hashes are practically impossible, even if
// they are made up, because the seeds are chosen at random by the process.
type causers struct {
	seeds   [2]maphash.Seed
	entries map[[2]uint64]uint64
}

func newCausers() causers {
	return causers{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, entries: map[[2]uint64]uint64{}}
}

func (c *causers) key(cause string) [2]uint64 {
	return [2]uint64{maphash.String(c.seeds[0], cause), maphash.String(c.seeds[1], cause)}
}

// last returns the last entry that had a cause.
func (c *causers) last(cause string) (seq uint64, found bool) {
	seq, found = c.entries[c.key(cause)]
	return seq, found
}

func (c *causers) add(cause string, seq uint64) { c.entries[c.key(cause)] = seq }

// sessionBrackets: only claims come before RunStarted. After SessionClosed, running work may still
// report.
func sessionBrackets() rule {
	opened, closed := false, false
	return func(f *fact) {
		switch f.event.(type) {
		case events.DriverClaimed, events.Parked, events.SnapshotTaken, events.CommandSigned, events.SessionDeleted:
			return
		case events.RunStarted:
			if opened {
				f.fail("the session opens a second time")
			}
			opened = true
			return
		}
		if !opened {
			f.fail("a %T comes before the session's RunStarted", f.event)
			opened = true
		}
		if !closed {
			_, closed = f.event.(events.SessionClosed)
			return
		}
		switch f.event.(type) {
		case events.SessionClosed:
			f.fail("the session closes a second time")
		case events.InputQueued, events.InputAccepted, events.TurnStarted, events.RoundStarted, events.ModelCallStarted,
			events.ToolDispatched, events.DeadLetterSettled, events.TaskStarted, events.VerifyStarted, events.ApprovalRequired:
			f.fail("a %T follows the session's close", f.event)
		}
	}
}

// turnBrackets: input is accepted, the turn starts, every event that names a turn names the open one,
// and the turn finishes. RunFailed comes directly before the end of a failed turn and nowhere else.
func turnBrackets() rule {
	var open, last content.TurnID
	var before any
	n := 0
	return func(f *fact) {
		_, starts := f.event.(events.TurnStarted)
		_, ends := f.event.(events.TurnFinished)
		if _, failed := before.(events.RunFailed); failed && !ends {
			f.fail("a %T follows RunFailed, want the end of the turn", f.event)
		}
		if in, accepted := before.(events.InputAccepted); accepted && open == "" && !starts {
			f.fail("input was accepted into %s, but the turn does not start", in.Turn)
		}
		switch ev := f.event.(type) {
		case events.InputAccepted:
			if want := orNext(open, n); ev.Turn != want {
				f.fail("input is accepted into %s, want %s", ev.Turn, want)
			}
		case events.TurnStarted:
			n++
			if _, accepted := before.(events.InputAccepted); !accepted && !f.ledger.continues {
				f.fail("%s starts without input", ev.Turn)
			}
			if open != "" {
				f.fail("%s starts while %s is open", ev.Turn, open)
			}
			if want := content.TurnIDFor(n); ev.Turn != want {
				f.fail("%s starts, want %s", ev.Turn, want)
				n = max(n, turnNumber(ev.Turn))
			}
			open, last = ev.Turn, ev.Turn
		case events.TurnFinished:
			_, failed := before.(events.RunFailed)
			if ev.Turn != open {
				f.fail("%s finishes, but %s", ev.Turn, isOpen(open))
			}
			if failed != (ev.FinishReason == content.Errored) {
				f.fail("%s finishes as %s, with RunFailed before it: %t", ev.Turn, ev.FinishReason, failed)
			}
			open = ""
		default:
			if turn, after, ok := turnOf(f); ok && turn != open && (!after || turn != last) {
				f.fail("a %T of %q, but %s", f.event, turn, isOpen(open))
			}
		}
		before = f.event
	}
}

func orNext(open content.TurnID, n int) content.TurnID {
	if open != "" {
		return open
	}
	return content.TurnIDFor(n + 1)
}

func isOpen(turn content.TurnID) string {
	if turn == "" {
		return "no turn is open"
	}
	return string(turn) + " is open"
}

// turnOf returns the turn of the event, and whether the event may also come directly after that turn.
func turnOf(f *fact) (turn content.TurnID, after, ok bool) {
	switch ev := f.event.(type) {
	case events.RoundStarted:
		return ev.Turn, false, true
	case events.RoundFinished:
		return ev.Turn, false, true
	case events.ModelCallStarted:
		return ev.Turn, false, true
	case events.ModelCallFailed:
		return ev.Turn, false, true
	case events.ReplyRecorded:
		return ev.Turn, false, true
	case events.ToolCallRequested:
		return ev.Turn, false, true
	case events.ApprovalRequired:
		return ev.Approval.Turn, false, !f.ledger.background(ev.Approval.CallID)
	case events.RunFailed:
		return ev.Turn, false, true
	case events.ToolResultReceived:
		return ev.Turn, false, !ev.Late
	case events.UsageUpdated:
		return ev.Turn, true, ev.Source != sourceChild
	case events.HookDecided:
		return ev.Turn, false, ev.Turn != ""
	case events.MutationStarted:
		return ev.Turn, true, true
	case events.MutationFinished:
		return ev.Turn, true, true
	case events.ToolDispatched:
		// A background call is retried regardless of which turn is open.
		c, known := f.ledger.calls[ev.Call]
		if !known || f.ledger.background(ev.Call) {
			return "", false, false
		}
		return c.turn, false, true
	}
	return "", false, false
}

// roundNumbers: a round may also start after a verifier rejected the work. An event that names a
// round names the open one.
func roundNumbers() rule {
	round, open, sentBack := 0, false, false
	same := func(f *fact, r int) {
		if r != round || !open {
			f.fail("a %T of round %d, but %s", f.event, r, openRound(round, open))
		}
	}
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.TurnStarted:
			round, open, sentBack = 0, false, false
		case events.VerifyFinished:
			sentBack = !ev.Success
		case events.RoundStarted:
			if open && !sentBack {
				f.fail("round %d starts while round %d is open", ev.Round, round)
			}
			if ev.Round != round+1 {
				f.fail("round %d starts, want round %d", ev.Round, round+1)
			}
			round, open, sentBack = ev.Round, true, false
		case events.RoundFinished:
			same(f, ev.Round)
			if id, waiting := f.ledger.unanswered(); waiting {
				f.fail("round %d finishes while call %s is unanswered", ev.Round, id)
			}
			if f.ledger.finish == "" {
				f.fail("round %d finishes without a reply", ev.Round)
			}
			open = false
		case events.ModelCallStarted:
			same(f, ev.Round)
		case events.ModelCallFailed:
			same(f, ev.Round)
		case events.ReplyRecorded:
			same(f, ev.Round)
		case events.ToolCallRequested:
			same(f, ev.Round)
		case events.TurnFinished:
			if ev.Rounds != round {
				f.fail("%s finishes with %d rounds, but %d started", ev.Turn, ev.Rounds, round)
			}
		}
	}
}

func openRound(round int, open bool) string {
	switch {
	case round == 0:
		return "no round has started"
	case open:
		return fmt.Sprintf("the open round is %d", round)
	}
	return fmt.Sprintf("round %d is finished", round)
}

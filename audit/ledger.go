package audit

import (
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// rule watches the events of one session and reports violations. It gets the ledger and the
// transcript as they were before the event.
type rule func(f fact)

// fact is one event and its context. Rules look only at some kinds and ignore those of later
// releases, so the event is an any: switches over an events.Event must be complete.
type fact struct {
	entry      *events.Entry
	index      int // in the entry
	event      any
	ledger     *ledger
	transcript *transcript
	fail       func(format string, args ...any)
	warn       func(format string, args ...any) // for what is suspicious but no violation
}

// ledger is the state that rules share: the open turn and round, and the state of every
// call. It accepts any sequence of events, even impossible ones.
type ledger struct {
	turn   content.TurnID // open; empty: idle
	round  int            // of the open turn, zero before its first
	finish content.FinishReason
	calls  map[content.CallID]*call
	open   []*call // of the round, in order
}

// call is the state of a tool call.
type call struct {
	content.ToolCall
	turn    content.TurnID
	round   int
	attempt int            // of the last dispatch; zero: never dispatched
	running bool           // an attempt is out
	gated   bool           // a question was raised after its dispatch
	status  content.Status // of its one terminal result
	waits   bool           // a placeholder answered it
	late    bool           // it has a late outcome
	dead    bool           // a dead letter: its workers were lost, and no decision was made
	again   bool           // a person retried it
}

// answered reports whether the round no longer waits for the call.
func (c *call) answered() bool { return c.status != "" || c.waits }

// beside reports whether the call runs in the background, or again as a dead letter.
func (l *ledger) beside(id content.CallID) bool {
	c, known := l.calls[id]
	return known && (c.waits || c.again)
}

func newLedger() ledger { return ledger{calls: map[content.CallID]*call{}} }

func (l *ledger) apply(ev any) {
	switch ev := ev.(type) {
	case events.TurnStarted:
		l.turn, l.round, l.finish, l.open = ev.Turn, 0, "", nil
	case events.TurnFinished:
		l.turn, l.open = "", nil
	case events.RoundStarted:
		l.round, l.finish, l.open = ev.Round, "", nil
	case events.ReplyRecorded:
		l.finish = ev.FinishReason
	case events.ToolCallRequested:
		c := &call{ToolCall: ev.Call, turn: ev.Turn, round: ev.Round}
		l.calls[ev.Call.ID] = c
		l.open = append(l.open, c)
	case events.ToolResultReceived:
		l.result(ev)
	default:
		l.applyRunning(ev)
	}
}

// applyRunning tracks the attempts of a call.
func (l *ledger) applyRunning(ev any) {
	switch ev := ev.(type) {
	case events.ApprovalRequired:
		if c, ok := l.calls[ev.Approval.CallID]; ok && c.attempt > 0 {
			c.gated = true
		}
	case events.ToolDispatched:
		if c, ok := l.calls[ev.Call]; ok {
			c.attempt, c.running, c.gated = ev.Attempt, true, false
		}
	case events.ToolAttemptLost:
		if c, ok := l.calls[ev.Call]; ok {
			c.running, c.dead, c.again = false, c.again, false
		}
	case events.DeadLetterSettled:
		if c, ok := l.calls[ev.Call]; ok {
			c.dead, c.again = false, ev.Outcome == events.DeadRetried
		}
	case events.ToolDetached:
		if c, ok := l.calls[ev.Call]; ok {
			c.waits = true
		}
	}
}

func (l *ledger) result(ev events.ToolResultReceived) {
	c, ok := l.calls[ev.Result.CallID]
	if ok {
		c.dead = ev.Result.Status == content.StatusUnknown && ev.Attempt == 0 && c.attempt > 0 && !c.running
	}
	switch {
	case !ok:
	case ev.Late:
		c.late, c.running, c.again = true, false, false
	default:
		c.status = ev.Result.Status
		c.running = c.running && c.status == content.StatusCancelled
	}
}

// unanswered returns the first call of the round without an answer.
func (l *ledger) unanswered() (content.CallID, bool) {
	for _, c := range l.open {
		if !c.answered() {
			return c.ID, true
		}
	}
	return "", false
}

// turnNumber returns N of turn-N, and zero for anything else.
func turnNumber(id content.TurnID) int {
	digits, ok := strings.CutPrefix(string(id), "turn-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || content.TurnIDFor(n) != id {
		return 0
	}
	return n
}

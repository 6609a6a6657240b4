package audit

import (
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// rule watches the facts of one session and says where they break a promise. The
// ledger and the transcript it is shown stand as they did before the event.
type rule func(f fact)

// fact is one event with where it stands. A rule looks only at the kinds that it
// is about, and kinds of later releases are none of its business: that is why the
// event comes as any and not as an events.Event, whose switches must be complete.
type fact struct {
	entry      *events.Entry
	index      int // in the entry
	event      any
	ledger     *ledger
	transcript *transcript
	fail       func(format string, args ...any)
	warn       func(format string, args ...any) // of what is odd and breaks nothing
}

// ledger is what the rules know in common: which turn and round are open, and
// what became of every call. It takes any sequence of events, also impossible
// ones.
type ledger struct {
	turn   content.TurnID // open; empty: idle
	round  int            // of the open turn, zero before its first
	finish content.FinishReason
	calls  map[content.CallID]*call
	open   []*call // of the round, in order
}

// call is what became of a tool call.
type call struct {
	content.ToolCall
	turn    content.TurnID
	round   int
	attempt int            // of the last dispatch; zero: never dispatched
	running bool           // an attempt is out
	gated   bool           // a gate came up after its dispatch
	status  content.Status // of its one terminal result
	waits   bool           // a placeholder answered it
	late    bool           // its late outcome came
	dead    bool           // its workers were lost, and nobody has decided what is to become of it
	again   bool           // a person has it run once more
}

// answered reports whether the round need not wait for the call any more.
func (c *call) answered() bool { return c.status != "" || c.waits }

// beside reports whether the call is one in the background, or under way once more.
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

// applyRunning follows the attempts of a call.
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

// turnNumber is N of turn-N; zero for anything else.
func turnNumber(id content.TurnID) int {
	digits, ok := strings.CutPrefix(string(id), "turn-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || content.TurnIDFor(n) != id {
		return 0
	}
	return n
}

package audit

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// rule checks the events of one session in order and reports violations. It gets the ledger and the
// transcript as they were before the event.
type rule func(f *fact)

// fact is one event and its context, while a rule examines it. Rules examine only some kinds and ignore kinds of later
// releases, so the type of the event is any: a switch over an events.Event must be complete.
type fact struct {
	checker    *Checker
	invariant  string // of the rule
	entry      *events.Entry
	index      int // in the entry
	event      any
	ledger     *ledger
	transcript *transcript
}

// fail reports a violation of the rule.
func (f *fact) fail(format string, args ...any) {
	f.checker.fault(verdict.Forged, f.entry.Seq, f.invariant, format, args...)
}

// ledger is the state that rules share: the open turn and the state of every call and
// approval. It accepts any sequence of events, even impossible ones.
type ledger struct {
	turn      content.TurnID       // open; empty: idle
	finish    content.FinishReason // of the round's reply
	calls     map[content.CallID]*call
	open      []*call // of the round, in order
	approvals map[content.ApprovalID]*approval
	asked     []*approval // of the open turn and of background calls, in order
	decided   int         // how many of asked, from the first, hold no round

	continues bool // the session began with another one's snapshot
	resumed   bool // the open round began in that session, with its reply and known results
}

func newLedger() ledger {
	return ledger{calls: map[content.CallID]*call{}, approvals: map[content.ApprovalID]*approval{}}
}

// call is the state of a tool call.
type call struct {
	content.ToolCall
	turn    content.TurnID
	round   int
	attempt int             // of the last dispatch; zero: never dispatched
	running bool            // an attempt is running
	asked   bool            // a question was raised after its dispatch
	digest  string          // digest of its current arguments, as approvers saw them
	patch   json.RawMessage // the arguments that an approver gave it
	status  content.Status  // of its one terminal result
	waits   bool            // a placeholder answered it
	late    bool            // it has a late outcome
	dead    bool            // a dead letter: its workers were lost, and its outcome is undecided
	again   bool            // a person retried it

	questions []*approval // the questions of ledger.asked about it
}

// approval is a question and its answer.
type approval struct {
	events.Approval
	late    bool // its call was running
	settled bool
	outcome events.Outcome
}

// answered reports whether the round no longer waits for the call.
func (c *call) answered() bool { return c.status != "" || c.waits }

// ended reports whether the call has its outcome and may not start again.
func (c *call) ended() bool { return (c.status != "" || c.late) && !c.again }

// of returns the state of a call, or an empty one for an unknown call.
func (l *ledger) of(id content.CallID) *call {
	if c, known := l.calls[id]; known {
		return c
	}
	return &call{}
}

// background reports whether the call runs in the background, or is a retried dead letter.
func (l *ledger) background(id content.CallID) bool { return l.of(id).waits || l.of(id).again }

func (l *ledger) apply(ev any) {
	switch ev := ev.(type) {
	case events.RunStarted:
		l.continues = ev.From != ""
	case events.ModelCallStarted:
		l.resumed = false
	case events.TurnStarted:
		l.turn, l.finish, l.open = ev.Turn, "", nil
		l.forget()
	case events.TurnFinished:
		l.turn, l.open = "", nil
	case events.RoundStarted:
		l.finish, l.open = "", nil
		l.resumed, l.continues = l.continues, false
	case events.ReplyRecorded:
		l.finish = ev.FinishReason
	case events.ToolCallRequested:
		c := &call{ToolCall: ev.Call, turn: ev.Turn, round: ev.Round}
		l.calls[ev.Call.ID] = c
		l.open = append(l.open, c)
	case events.ApprovalRequired:
		l.ask(ev.Approval)
	case events.ApprovalResolved:
		l.settle(ev)
	case events.ToolDispatched:
		c := l.of(ev.Call)
		c.attempt, c.running, c.asked = ev.Attempt, true, false
	case events.ToolAttemptLost:
		c := l.of(ev.Call)
		c.running, c.dead, c.again = false, c.again, false
	case events.DeadLetterSettled:
		c := l.of(ev.Call)
		c.dead, c.again = false, ev.Outcome == events.DeadRetried
	case events.ToolDetached:
		l.of(ev.Call).waits = true
	case events.ToolResultReceived:
		l.of(ev.Result.CallID).answer(ev)
	}
}

// forget drops the questions of the previous turn. Background calls continue.
func (l *ledger) forget() {
	l.asked = slices.DeleteFunc(l.asked, func(a *approval) bool {
		ended := !l.background(a.CallID)
		if c := l.of(a.CallID); ended {
			c.digest, c.patch, c.questions = "", nil, nil
		}
		return ended
	})
	l.decided = 0
}

func (l *ledger) ask(a events.Approval) {
	c := l.of(a.CallID)
	c.digest = a.Digest
	c.asked = c.asked || c.attempt > 0
	asked := &approval{Approval: a, late: c.attempt > 0}
	l.approvals[a.ID] = asked
	l.asked = append(l.asked, asked)
	c.questions = append(c.questions, asked)
}

// holding returns the first undecided question about another call that holds the round of c.
func (l *ledger) holding(c *call) (content.ApprovalID, bool) {
	for l.decided < len(l.asked) && (l.asked[l.decided].outcome != "" || l.asked[l.decided].late) {
		l.decided++
	}
	for _, a := range l.asked[l.decided:] {
		if a.outcome == "" && !a.late && a.Round == c.round && a.CallID != c.ID {
			return a.ID, true
		}
	}
	return "", false
}

// undecided lists the open questions.
func (l *ledger) undecided() (open []content.ApprovalID) {
	for _, a := range l.asked {
		if !a.settled {
			open = append(open, a.ID)
		}
	}
	return open
}

func (l *ledger) settle(ev events.ApprovalResolved) {
	if a, known := l.approvals[ev.Approval]; known {
		a.settled, a.outcome = true, ev.Outcome
	}
	if c := l.of(ev.Call); len(ev.Input) > 0 {
		c.digest, c.patch = ev.Digest, ev.Input
	}
}

func (c *call) answer(ev events.ToolResultReceived) {
	c.dead = ev.Result.Status == content.StatusUnknown && ev.Attempt == 0 && c.attempt > 0 && !c.running
	if ev.Late {
		c.late, c.running, c.again = true, false, false
		return
	}
	c.status = ev.Result.Status
	c.running = c.running && c.status == content.StatusCancelled
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

// turnNumber returns N for turn-N, and zero for anything else.
func turnNumber(id content.TurnID) int {
	digits, ok := strings.CutPrefix(string(id), "turn-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || content.TurnIDFor(n) != id {
		return 0
	}
	return n
}

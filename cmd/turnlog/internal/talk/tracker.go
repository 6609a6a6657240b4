package talk

import (
	"bytes"
	"slices"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// tracker reads a session's journal from its first entry and follows one submission:
// which turn took it, what that turn did, how it ended. Between two submissions it keeps
// the state of the session.
type tracker struct {
	opened  bool             // the session has started
	closed  bool             // and is closed
	deleted *events.Deletion // nil: it exists
	config  events.Config    // with which it started
	system  string           // prompt with which it started
	head    journal.Head     // of what was read

	openTurn

	last *turnOutcome // the end of the last turn of any submission

	ask string       // ID of the submission until its entry was read
	own *submission  // nil: none is tracked
	end *turnOutcome // the end of its turn
}

// openTurn is the open turn; the zero value is none.
type openTurn struct {
	turn    content.TurnID
	calls   []callReport
	waits   []events.Approval // pending
	text    string            // of its last reply
	round   int
	usage   content.Usage
	limit   *events.LimitReached  // that will end it
	failure *events.RunFailed     // the failure that will end it
	gate    events.VerifyFinished // the last verification of a task
	task    *events.TaskFinished
}

// submission is a command with input.
type submission struct {
	onBusy events.OnBusy
	task   bool           // it is a task
	turn   content.TurnID // the turn that took it; "": still queued
}

// callReport is a tool call in a turn's report.
type callReport struct {
	ID         content.CallID `json:"id"`
	Name       string         `json:"name"`
	Status     string         `json:"status"` // ok, error, denied, cancelled or unknown
	Route      string         `json:"route"`  // foreground, background or detach
	Attempts   int            `json:"attempts"`
	DurationMS int64          `json:"duration_ms"`

	running bool // an attempt is running
}

// turnOutcome is the end of a turn, or its state while approvals are pending.
type turnOutcome struct {
	events.TurnFinished
	text    string
	calls   []callReport
	failure *events.RunFailed
	limit   *events.LimitReached
	gate    events.VerifyFinished
	task    *events.TaskFinished // nil: not a task, or not over
	held    []events.Approval    // pending approvals; FinishReason is empty then
	head    journal.Head         // the entry that ended it
}

// follow tracks the command with an ID.
func (t *tracker) follow(ask string, onBusy events.OnBusy) {
	t.ask, t.own, t.end = ask, &submission{onBusy: onBusy}, nil
}

// adopt tracks a turn; with an empty one, the next turn that starts with input.
func (t *tracker) adopt(turn content.TurnID) {
	t.ask, t.own, t.end = "", &submission{turn: turn}, nil
}

// accepted reports whether the command's entry was read.
func (t *tracker) accepted() bool { return t.own != nil && t.ask == "" }

// take reads the next entry and calls happened for each event of the submission's turn.
func (t *tracker) take(rec journal.Record, happened func(events.Event)) {
	t.head = rec.Head
	if d, ok := events.DeletionOf(rec.Entry); ok {
		t.deleted = &d
	}
	caused := t.ask != "" && rec.Entry.Cause == t.ask
	if caused {
		t.ask = ""
	}
	queued := t.accepted() && !caused // its InputQueued comes first
	for _, ev := range rec.Entry.Events {
		if q, ok := ev.(events.InputQueued); ok && caused {
			queued, t.own.task = true, q.Task != nil
		}
		mine := t.mine()
		t.apply(ev, queued)
		if mine || t.mine() || queued && t.planned(ev) {
			happened(ev)
		}
	}
	if t.last != nil && t.last.head.Seq == 0 {
		t.last.head = rec.Head
	}
}

// mine reports whether the open turn is the submission's.
func (t *tracker) mine() bool {
	return t.own != nil && t.end == nil && t.own.turn != "" && t.own.turn == t.turn
}

// planned reports whether an event starts the submission's task, before its turn. A session
// queues only one task at a time.
func (t *tracker) planned(ev any) bool {
	_, ok := ev.(events.TaskStarted)
	return ok && t.own.task
}

// apply folds an event of the kinds that matter here. It comes as any, since a switch over
// events.Event must have all kinds.
func (t *tracker) apply(ev any, queued bool) {
	switch ev := ev.(type) {
	case events.RunStarted:
		t.opened, t.config = true, ev.Config
		if len(ev.Transcript) > 0 && ev.Transcript[0].Kind == content.System {
			t.system = ev.Transcript[0].Text()
		}
	case events.ConfigChanged:
		t.config = ev.Config
	case events.SessionClosed:
		t.closed = true
	case events.InputAccepted:
		t.merge(ev, queued)
	case events.TurnStarted:
		t.openTurn = openTurn{turn: ev.Turn}
	case events.RoundStarted:
		t.round = ev.Round
	case events.UsageUpdated:
		t.usage = t.usage.Add(ev.Usage)
	case events.TurnFinished:
		t.finish(ev)
	case events.LimitReached:
		t.limit = &ev
	case events.RunFailed:
		t.failure = &ev
	case events.VerifyFinished:
		t.gate = ev
	case events.TaskFinished:
		t.task = &ev
	case events.ReplyRecorded:
		if n := len(ev.Items); n > 0 {
			t.text = ev.Items[n-1].Text()
		}
		if ev.Invalid != "" {
			t.text = "" // it was rejected
		}
	default:
		t.applyCall(ev)
	}
}

// merge notes which turn took the submission. At a round boundary only steering input
// joins; between turns all queued input does.
func (t *tracker) merge(ev events.InputAccepted, queued bool) {
	if ev.Origin != events.FromHost && ev.Origin != events.FromParent && ev.Origin != events.FromTask {
		return
	}
	if queued && t.own.turn == "" && (t.turn == "" || t.own.onBusy == events.Steer) {
		t.own.turn = ev.Turn
	}
}

func (t *tracker) finish(ev events.TurnFinished) {
	t.last = &turnOutcome{TurnFinished: ev, text: t.text, calls: t.calls, limit: t.limit, failure: t.failure, gate: t.gate, task: t.task}
	if t.mine() {
		t.end = t.last
	}
	t.openTurn = openTurn{}
}

func (t *tracker) applyCall(ev any) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		t.calls = append(t.calls, callReport{ID: ev.Call.ID, Name: ev.Call.Name, Status: content.StatusUnknown.Public(), Route: app.RouteName(ev.Routing.Route)})
	case events.ToolDispatched:
		if c := t.call(ev.Call); c != nil {
			c.Attempts, c.running, c.Route = ev.Attempt, true, app.RouteName(ev.Route)
		}
	case events.ToolAttemptLost:
		if c := t.call(ev.Call); c != nil {
			c.running = false
		}
	case events.ToolDetached:
		if c := t.call(ev.Call); c != nil {
			c.running = false // the turn no longer waits for it
			if c.Route == app.RouteName(content.Foreground) {
				c.Route = string(content.Background)
			}
		}
	case events.ToolResultReceived:
		if c := t.call(ev.Result.CallID); c != nil && !ev.Late {
			c.Status, c.DurationMS, c.running = ev.Result.Status.Public(), ev.Duration.Milliseconds(), false
		}
	case events.ApprovalRequired:
		t.waits = append(t.waits, ev.Approval)
		if c := t.call(ev.Approval.CallID); c != nil {
			c.running = false // the worker asked, so it waits
		}
	case events.ApprovalResolved:
		t.waits = slices.DeleteFunc(t.waits, func(a events.Approval) bool { return a.ID == ev.Approval })
	}
}

func (t *tracker) call(id content.CallID) *callReport {
	i := slices.IndexFunc(t.calls, func(c callReport) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &t.calls[i]
}

// held returns the approvals that block the submission's turn, or the turn that it is
// queued after, if nothing is running there.
func (t *tracker) held() []events.Approval {
	queued := t.accepted() && t.own.turn == ""
	running := slices.ContainsFunc(t.calls, func(c callReport) bool { return c.running })
	if !t.mine() && !queued || running {
		return nil
	}
	return t.waits
}

// standing returns the state of the submission's turn while approvals are pending.
func (t *tracker) standing() *turnOutcome {
	return &turnOutcome{
		TurnFinished: events.TurnFinished{Turn: t.turn, Rounds: t.round, Usage: t.usage},
		text:         t.text, calls: t.calls, held: slices.Clone(t.waits), head: t.head,
	}
}

// differs returns a flag that contradicts how the session started, or "".
func (t *tracker) differs(s flags.Start, given func(flag string) bool) string {
	switch {
	case given("model") && (s.Config.Model != t.config.Model || !bytes.Equal(s.Config.ModelData, t.config.ModelData)):
		return "model"
	case given("system") && s.System != t.system:
		return "system"
	case given("agent") && !sameAgent(s.Config.Agent, t.config.Agent):
		return "agent"
	}
	return ""
}

// sameAgent reports whether a session has the requested agent. Without a version any
// version matches.
func sameAgent(asked, is *events.AgentRef) bool {
	return is != nil && asked.Name == is.Name && (asked.Version == "" || asked.Version == is.Version)
}

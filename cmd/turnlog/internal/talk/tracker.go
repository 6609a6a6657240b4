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

// tracker reads a session's journal, entry by entry from the first one on, and
// knows what became of one submission: which turn took it in, what that turn did,
// how it ended. Between two submissions it keeps what is known of the session.
type tracker struct {
	opened  bool             // the session has started
	closed  bool             // and has ended for good
	deleted *events.Deletion // nil: it was not
	config  events.Config    // with which it started
	system  string           // prompt with which it started
	head    journal.Head     // up to where the journal was read

	openTurn

	last *turnOutcome // how the last turn ended, whoever's it was

	ask string       // id of the submission while its entry was not seen
	own *submission  // what became of it; nil: none is tracked
	end *turnOutcome // how its turn ended
}

// openTurn is what is known of a turn while it is open; the zero value is none.
type openTurn struct {
	turn    content.TurnID
	calls   []callReport
	waits   []events.Approval // that nobody has decided
	text    string            // of its last reply
	round   int
	usage   content.Usage
	limit   *events.LimitReached  // why it is about to end
	failure *events.RunFailed     // as above
	gate    events.VerifyFinished // what a task's gate said last
	task    *events.TaskFinished
}

// submission is an ask with input.
type submission struct {
	onBusy events.OnBusy
	task   bool           // it is a task
	turn   content.TurnID // the turn that took it in; "": still queued
}

// callReport is a tool call as it is reported at the end.
type callReport struct {
	ID         content.CallID `json:"id"`
	Name       string         `json:"name"`
	Status     string         `json:"status"` // ok, error, denied, cancelled or unknown
	Route      string         `json:"route"`  // foreground, background or detach
	Attempts   int            `json:"attempts"`
	DurationMS int64          `json:"duration_ms"`

	running bool // an attempt is out
}

// turnOutcome is how a turn ended, or what holds it.
type turnOutcome struct {
	events.TurnFinished
	text    string
	calls   []callReport
	failure *events.RunFailed
	limit   *events.LimitReached
	gate    events.VerifyFinished
	task    *events.TaskFinished // nil: the turn is no task's, or is not over
	held    []events.Approval    // what it waits for; its FinishReason is empty then
	head    journal.Head         // behind the entry that ended it
}

// follow makes the tracker look out for what the ask with that id causes.
func (t *tracker) follow(ask string, onBusy events.OnBusy) {
	t.ask, t.own, t.end = ask, &submission{onBusy: onBusy}, nil
}

// adopt makes the tracker look out for the end of a turn, whoever's it is; with an
// empty one, of the next that begins with input.
func (t *tracker) adopt(turn content.TurnID) {
	t.ask, t.own, t.end = "", &submission{turn: turn}, nil
}

// accepted reports whether the entry that the ask caused was seen.
func (t *tracker) accepted() bool { return t.own != nil && t.ask == "" }

// take reads the next entry and hands on, in order, the events of the turn that
// took the submission in.
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

// mine reports whether the open turn is the one that took the submission in.
func (t *tracker) mine() bool {
	return t.own != nil && t.end == nil && t.own.turn != "" && t.own.turn == t.turn
}

// planned reports whether an event begins the submission's task, before its turn. Of
// a session only one task is queued at a time.
func (t *tracker) planned(ev any) bool {
	_, ok := ev.(events.TaskStarted)
	return ok && t.own.task
}

// apply takes in an event of the kinds that matter here. It comes as any, since a
// switch over events.Event must know all kinds.
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
			t.text = "" // it was refused
		}
	default:
		t.applyCall(ev)
	}
}

// merge notes which turn took the submission in. At a round boundary only input
// that steers joins; between two turns everything that is queued does.
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
			c.running = false // the turn does not wait for it any more
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
			c.running = false // it was asked where it ran, and waits now
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

// held returns the approvals that the submission's turn waits for, or the one that it
// is queued behind, if nothing else goes on there.
func (t *tracker) held() []events.Approval {
	behind := t.accepted() && t.own.turn == ""
	running := slices.ContainsFunc(t.calls, func(c callReport) bool { return c.running })
	if !t.mine() && !behind || running {
		return nil
	}
	return t.waits
}

// standing is how the submission's turn stands while a person has to decide.
func (t *tracker) standing() *turnOutcome {
	return &turnOutcome{
		TurnFinished: events.TurnFinished{Turn: t.turn, Rounds: t.round, Usage: t.usage},
		text:         t.text, calls: t.calls, held: slices.Clone(t.waits), head: t.head,
	}
}

// differs names a flag that was given and asks for another start than the one that
// the session had, or "".
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

// sameAgent reports whether a session is of the agent that was asked for. One that was
// named may be of any version.
func sameAgent(asked, is *events.AgentRef) bool {
	return is != nil && asked.Name == is.Name && (asked.Version == "" || asked.Version == is.Version)
}

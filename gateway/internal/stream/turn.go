package stream

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Turn projects a stream onto the steps of one turn that protocols show. Questions that the turn waits for end a
// part of it. The next part begins with a decision, or with the end of the turn.
type Turn struct {
	id     content.TurnID
	part   int  // the current or last part; 0: the turn has not begun
	waits  bool // the part ended with questions
	over   bool
	calls  []*ToolCall       // the calls of the round
	linked int               // number of calls of the round whose IDs are known
	open   []events.Approval // undecided questions
	failed *events.RunFailed
}

// Decision is a person's answer to a question.
type Decision struct {
	Approval content.ApprovalID
	Approve  bool
	Reason   string
	Input    json.RawMessage // with Approve: the arguments that replace the model's; nil: the model's
	Shown    string          // the digest of the arguments shown to the person; "": unknown
}

// MessageID returns the ID of the i-th item that an entry accepts, counted from 0, as a user's message. cause is the cause
// of the entry: the command. Its ID follows from the ID that the client gave to the message, see CommandID.
func MessageID(cause string, i int) string {
	cause = strings.TrimLeft(cause, pad)
	if i > 0 {
		cause += "-" + strconv.Itoa(i+1)
	}
	return cause
}

// SaidBy returns the texts of users' messages.
func SaidBy(items []content.Item) (texts []string) {
	for _, it := range items {
		if it.Kind == content.User {
			texts = append(texts, it.Text())
		}
	}
	return texts
}

// pad makes short IDs of messages long enough for commands.
const pad = "_"

// CommandID turns the ID of a message into the ID of a command, with at least min characters. ok is false if that is not
// possible.
func CommandID(message string, min int) (id string, ok bool) {
	return strings.Repeat(pad, max(0, min-len(message))) + message, message != "" && content.IsToken(message)
}

// NewTurn returns the projection onto the n-th turn.
func NewTurn(n int) *Turn { return &Turn{id: content.TurnIDFor(n)} }

// ToolCall is a call of the current round.
type ToolCall struct {
	Place    content.Place  // identifies the call from its beginning
	ID       content.CallID // "" until the reply is recorded
	Tool     string
	Asked    content.ApprovalID // the last question about it
	Answered bool

	text  strings.Builder
	input string // the effective arguments, once they are known
}

// Input returns the arguments as far as they are known.
func (c *ToolCall) Input() string {
	if c.input != "" {
		return c.input
	}
	return c.text.String()
}

// Step is something that happens in a turn.
type Step interface{ step() }

// The steps of a turn.
type (
	// PartBegan begins a part of the turn. The first part begins with the turn.
	PartBegan struct{ Part int }

	// PartPaused ends a part with all open questions.
	PartPaused struct{ Open []events.Approval }

	// RoundBegan begins a round: a model call and the tool calls that it asks for.
	RoundBegan struct{ Round int }

	// RoundEnded says that all calls of a round are answered.
	RoundEnded struct{ Round int }

	// AttemptBegan begins an attempt at a model call.
	AttemptBegan struct{ Call Call }

	// AttemptFailed ends an attempt. A Voided comes before it if pieces of it were received.
	AttemptFailed struct{ Call Call }

	// Grown is a piece of a reply. Call is set for a piece of a call.
	Grown struct {
		Piece Piece
		At    Cursor // the place after the piece
		Call  *ToolCall
	}

	// Voided takes back the pieces of an attempt so far, and the calls that they began.
	Voided struct{ Call Call }

	// Replied records the whole reply.
	Replied struct{ Reply events.ReplyRecorded }

	// Decided is the outcome of a question.
	Decided struct {
		Outcome events.ApprovalResolved
		Call    *ToolCall // nil: the call is in an earlier round
	}

	// CallStarted says that a call starts. Patched says that its arguments differ from the reply.
	CallStarted struct {
		Call    *ToolCall
		Patched bool
	}

	// CallAnswered is the result of a call, or the placeholder for a call that continues in the background.
	CallAnswered struct {
		Call     *ToolCall
		Result   content.ToolResult
		Detached bool
	}

	// Joined is input that joins the turn while it runs.
	Joined struct {
		Input  events.InputAccepted
		Cause  string // of the entry
		Before int    // number of items that the entry accepts before this one
	}

	// Used is the usage of a model call.
	Used struct{ Usage content.Usage }

	// Ended ends the turn.
	Ended struct {
		Reason content.FinishReason
		Usage  content.Usage
		Failed *events.RunFailed // nil: the reason says everything
	}
)

func (PartBegan) step()     {}
func (PartPaused) step()    {}
func (RoundBegan) step()    {}
func (RoundEnded) step()    {}
func (AttemptBegan) step()  {}
func (AttemptFailed) step() {}
func (Grown) step()         {}
func (Voided) step()        {}
func (Replied) step()       {}
func (Decided) step()       {}
func (CallStarted) step()   {}
func (CallAnswered) step()  {}
func (Joined) step()        {}
func (Used) step()          {}
func (Ended) step()         {}

// Part returns the current part, or the last one. It returns 0 if the turn has not begun.
func (t *Turn) Part() int { return t.part }

// Waits reports whether the turn waits for answers to questions.
func (t *Turn) Waits() bool { return t.waits }

// Over reports whether the turn has ended.
func (t *Turn) Over() bool { return t.over }

// Calls returns the calls of the round.
func (t *Turn) Calls() []*ToolCall { return t.calls }

// Skip handles an event of the stream without yielding steps.
func (t *Turn) Skip(ev Event) { t.Show(ev, func(Step) {}) }

// Show handles an event of the stream and yields the steps that follow from it.
func (t *Turn) Show(ev Event, yield func(Step)) {
	switch {
	case t.over:
	case ev.Entry != nil:
		t.record(*ev.Entry, yield)
	case t.part == 0:
	case ev.Piece != nil && ev.Piece.Turn == t.id:
		t.grow(*ev.Piece, ev.Cursor, yield)
	case ev.Void != nil && ev.Void.Turn == t.id:
		t.calls, t.linked = nil, 0
		yield(Voided{*ev.Void})
	}
}

func (t *Turn) record(rec journal.Record, yield func(Step)) {
	decided, asked, accepted := false, false, 0
	for _, ev := range rec.Entry.Events {
		switch e := any(ev).(type) {
		case events.ApprovalRequired:
			asked = t.ask(e.Approval) || asked
		case events.ApprovalResolved:
			decided = t.decide(e, yield) || decided
		case events.InputAccepted:
			if t.part > 0 && e.Turn == t.id {
				yield(Joined{e, rec.Entry.Cause, accepted})
			}
			accepted += len(e.Items)
		default:
			t.fold(e, yield)
		}
		if t.over {
			return
		}
	}
	if len(t.open) > 0 && (asked && !t.waits || decided) {
		t.waits = true
		yield(PartPaused{t.open})
	}
}

func (t *Turn) begin(yield func(Step)) {
	t.part, t.waits = t.part+1, false
	yield(PartBegan{t.part})
}

// ask handles a question, unless it is about a call in the background: the turn does not wait for that.
func (t *Turn) ask(a events.Approval) bool {
	c := t.callOf(a.CallID)
	if a.Turn != t.id || t.part == 0 || c != nil && c.Answered {
		return false
	}
	if c != nil {
		c.Asked = a.ID
	}
	t.open = append(t.open, a)
	return true
}

func (t *Turn) decide(e events.ApprovalResolved, yield func(Step)) bool {
	i := slices.IndexFunc(t.open, func(a events.Approval) bool { return a.ID == e.Approval })
	if i < 0 {
		return false
	}
	t.open = slices.Delete(slices.Clone(t.open), i, i+1)
	for i, a := range t.open {
		if len(e.Input) > 0 && a.CallID == e.Call { // other questions about the call now concern its new arguments
			if a.Summary == events.CallSummary(a.Tool, a.Input) {
				t.open[i].Summary = events.CallSummary(a.Tool, e.Input)
			}
			t.open[i].Input, t.open[i].Digest = e.Input, e.Digest
		}
	}
	if t.waits {
		t.begin(yield)
	}
	yield(Decided{e, t.callOf(e.Call)})
	return true
}

func (t *Turn) callOf(id content.CallID) *ToolCall {
	for _, c := range t.calls {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// fold handles an event. Its type is any, since a switch over events.Event must have all kinds.
func (t *Turn) fold(ev any, yield func(Step)) {
	switch e := ev.(type) {
	case events.TurnStarted:
		if e.Turn == t.id {
			t.begin(yield)
		}
	case events.RoundStarted:
		if e.Turn == t.id {
			t.calls, t.linked = nil, 0
			yield(RoundBegan{e.Round})
		}
	case events.RoundFinished:
		if e.Turn == t.id {
			yield(RoundEnded{e.Round})
		}
	case events.ModelCallStarted:
		if e.Turn == t.id {
			yield(AttemptBegan{Call{e.Turn, e.Round, e.Attempt}})
		}
	case events.ModelCallFailed:
		if e.Turn == t.id {
			yield(AttemptFailed{Call{e.Turn, e.Round, e.Attempt}})
		}
	case events.ReplyRecorded:
		if e.Turn == t.id {
			yield(Replied{e})
		}
	case events.ToolCallRequested:
		if e.Turn == t.id && t.linked < len(t.calls) {
			c := t.calls[t.linked]
			c.ID, c.input = e.Call.ID, string(e.Call.Input)
			t.linked++
		}
	case events.ToolDispatched:
		if c := t.callOf(e.Call); c != nil && !c.Answered {
			if len(e.Input) > 0 {
				c.input = string(e.Input)
			}
			yield(CallStarted{c, len(e.Input) > 0})
		}
	case events.ToolDetached:
		if c := t.callOf(e.Call); c != nil && !c.Answered {
			t.answer(c, content.NewResult(c.ID, c.Tool, content.StatusOK, e.Placeholder), true, yield)
		}
	case events.ToolResultReceived:
		if c := t.callOf(e.Result.CallID); c != nil && !c.Answered && !e.Late {
			t.answer(c, e.Result, false, yield)
		}
	case events.UsageUpdated:
		if e.Turn == t.id {
			yield(Used{e.Usage})
		}
	case events.RunFailed:
		if e.Turn == t.id {
			t.failed = &e
		}
	case events.TurnFinished:
		if e.Turn == t.id {
			if t.waits {
				t.begin(yield) // the turn was cancelled, or a limit ended it, while it waited
			}
			t.over = true
			yield(Ended{e.FinishReason, e.Usage, t.failed})
		}
	}
}

func (t *Turn) answer(c *ToolCall, r content.ToolResult, detached bool, yield func(Step)) {
	c.Answered = true
	yield(CallAnswered{c, r, detached})
}

func (t *Turn) grow(p Piece, at Cursor, yield func(Step)) {
	if p.Kind != content.ToolCallKind {
		yield(Grown{p, at, nil})
		return
	}
	if p.Op == content.BeginPart {
		t.calls = append(t.calls, &ToolCall{Place: content.PlaceOf(t.id.Number(), p.Round, len(t.calls)+1), Tool: p.Tool})
	}
	if len(t.calls) == 0 {
		return // the stream began in the middle of the call
	}
	c := t.calls[len(t.calls)-1]
	c.text.WriteString(p.Text)
	yield(Grown{p, at, c})
}

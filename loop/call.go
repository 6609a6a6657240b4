package loop

import (
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Call is a tool call of the open round, or one in the background.
type Call struct {
	content.ToolCall
	Turn    content.TurnID
	Round   int
	Routing content.Routing
	Rules   [][]events.Rule // rules of its turn

	Input      []byte                // the effective input, if patched
	Digest     string                // of the effective input
	Attempt    int                   // zero: never dispatched
	Dispatched bool                  // an attempt is running
	Lost       int                   // attempts whose worker was lost
	Questions  int                   // questions asked about it
	Suspended  int                   // times an attempt came back with a question
	Approved   []content.QuestionKey // questions answered with yes, which its runner need not ask
	Asked      []content.QuestionKey // questions the held attempt came back with
	Deadline   content.Time
	DetachAt   content.Time

	Status      content.Status // empty: no result yet
	Result      *content.ToolResult
	Placeholder string // the model's answer when the call moved to the background
	Placed      bool   // its answer is in the transcript
	Late        bool   // its late outcome arrived
	Ticketed    bool   // reports about its last dispatch come with a ticket
	Letter      Letter // set when its workers were lost, and its outcome with them
}

// Letter is the state of a dead letter: a call whose workers were lost.
type Letter string

// The states of a dead letter.
const (
	NoLetter      Letter = ""
	LetterDead    Letter = "dead"    // awaits a decision
	LetterRetried Letter = "again"   // a person retried it
	LetterDropped Letter = "dropped" // a person dropped it
)

// Answered reports whether the round need not wait for the call.
func (c Call) Answered() bool { return c.Status != "" || c.Placeholder != "" }

// Answer returns the item that answers the call in the transcript, if there is one.
func (c Call) Answer() (it content.Item, ok bool) {
	switch {
	case c.Result != nil:
		return content.ResultItem(*c.Result), true
	case c.Placeholder != "":
		return content.ResultItem(content.NewResult(c.ID, c.Name, content.StatusOK, c.Placeholder)), true
	}
	return it, false
}

// Running reports whether an attempt is running whose outcome still counts.
func (c Call) Running() bool { return c.Dispatched && (c.Status == "" || c.Retried()) }

// InBackground reports whether the call's outcome is pending and no round waits for it.
func (c Call) InBackground() bool { return c.Placeholder != "" && c.Status == "" || c.Retried() }

// DeadLetter reports whether the call is a dead letter that awaits a decision.
func (c Call) DeadLetter() bool { return c.Letter == LetterDead }

// Retried reports whether the call is a dead letter that a person retried.
func (c Call) Retried() bool { return c.Letter == LetterRetried }

// EffectiveInput returns the input for the tool: the patched one, if there is one.
func (c Call) EffectiveInput() []byte {
	if c.Input != nil {
		return c.Input
	}
	return c.ToolCall.Input
}

// asksOutsideTurn reports whether questions about the call are in State.BackgroundApprovals.
func (c Call) asksOutsideTurn() bool { return c.Placeholder != "" || c.Retried() }

// awaited reports whether a late outcome of an answered call still counts: after a placeholder, after an unknown
// outcome, after a cancel while it ran, and for a retried dead letter.
func (c Call) awaited() bool {
	switch {
	case c.Retried():
		return true
	case c.Late:
		return false
	case c.Placeholder != "" && c.Status == "", c.Status == content.StatusUnknown:
		return true
	}
	return c.Status == content.StatusCancelled && c.Dispatched
}

// stopping reports whether an attempt ran or was held when the call was answered.
func (c Call) stopping() bool {
	return c.Status != "" && !c.Retried() && (c.Dispatched || len(c.Asked) > 0)
}

// expendable reports whether a call in State.Stops may be forgotten after a whole turn. A sub-agent's call may not:
// it can ask a refused question again until it reports its usage.
func (c Call) expendable() bool {
	return !slices.ContainsFunc(c.Asked, func(k content.QuestionKey) bool { return strings.HasPrefix(k.Kind, KindChild) })
}

// overdueAt is when the core stops waiting for a running call; zero: never.
func (c Call) overdueAt() content.Time {
	if !c.Running() || c.Deadline == 0 {
		return 0
	}
	return c.Deadline.Add(deadlineGrace)
}

// failsRun reports whether the call fails its turn, in a session that is configured so.
func (c Call) failsRun() bool {
	switch {
	case c.Result == nil:
		return false
	case c.Result.Status == content.StatusError:
		return c.Result.Code != codeRetry && c.Result.Code != codeAuth
	}
	return c.Result.Status == content.StatusDenied && c.Result.Code != codeDeniedByPerson
}

// failure is the message of a turn that the call failed.
func (c Call) failure() string { return c.Name + " (" + string(c.ID) + "): " + c.Result.Text() }

// Call finds a call of the round or in the background by ID.
func (s *State) Call(id content.CallID) (*Call, bool) {
	if t := s.Turn; t != nil {
		if i := t.call(id); i >= 0 {
			return &t.Calls[i], true
		}
	}
	return find(s.Background, func(c *Call) bool { return c.ID == id })
}

// CallAt finds a call of the round or in the background by place.
func (s *State) CallAt(p content.Place) (*Call, bool) {
	at := func(c *Call) bool { return c.Place == p }
	if c, ok := find(s.roundCalls(), at); ok {
		return c, ok
	}
	return find(s.Background, at)
}

func find(calls []Call, match func(*Call) bool) (*Call, bool) {
	for i := range calls {
		if match(&calls[i]) {
			return &calls[i], true
		}
	}
	return nil, false
}

// roundCalls lists the calls of the open round.
func (s *State) roundCalls() []Call {
	if s.Turn == nil {
		return nil
	}
	return s.Turn.Calls
}

func (s *State) inRound(id content.CallID) bool {
	return s.Turn != nil && s.Turn.call(id) >= 0
}

// callsWhere lists the calls that match: those in the background, then the round's.
func (s *State) callsWhere(match func(Call) bool) []Call {
	all := slices.Concat(s.Background, s.roundCalls())
	return slices.DeleteFunc(all, func(c Call) bool { return !match(c) })
}

// DeadLetters lists the session's dead letters in the order of their calls. A closed
// session has none: nothing in it runs again.
func (s *State) DeadLetters() []Call {
	if s.Closed {
		return nil
	}
	return s.callsWhere(Call.DeadLetter)
}

// StoppingCall finds a call that must stop, by its place.
func (s *State) StoppingCall(p content.Place) (Call, bool) {
	for _, c := range slices.Concat(s.roundCalls(), s.Background, s.Stops) {
		if c.Place == p && c.stopping() {
			return c, true
		}
	}
	return Call{}, false
}

// asksOutsideTurn reports whether questions about the call are in State.BackgroundApprovals.
func (s *State) asksOutsideTurn(id content.CallID) bool {
	c, ok := s.Call(id)
	return ok && c.asksOutsideTurn()
}

// call returns the index of a call of the round by ID, or -1.
func (t *Turn) call(id content.CallID) int { return t.ByID.Find(string(id), t.callID) }

func (t *Turn) callID(i int) string { return string(t.Calls[i].ID) }

func (t *Turn) approvalID(i int) string { return string(t.Approvals[i].ID) }

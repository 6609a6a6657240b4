// Package mcptool implements the Model Context Protocol for sessions: an agent is a tool, and a call of it is a turn.
//
// A [Call] projects the stream of a session onto one turn, as the client of the tool sees it: lines of progress, then
// the outcome of the turn, or what it waits for. All of it follows from the journal, so a client that lost its call can
// call again without a prompt, at any gateway.
//
// A [Form] asks a person at the client about an approval, and reads the answer. Neither has state that another gateway
// would need. A Call is owned by one goroutine.
package mcptool

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Input has the arguments of a tool.
type Input struct {
	Prompt  string `json:"prompt,omitempty" jsonschema:"the task for the agent; without it, the call returns the result of the session's latest turn"`
	Session string `json:"session,omitempty" jsonschema:"the session to continue; without it, a new one"`
}

// Result is the outcome of a call, as structured content.
type Result struct {
	Session content.SessionID `json:"session" jsonschema:"pass it to continue the session"`
	Turn    content.TurnID    `json:"turn"`
	State   string            `json:"state" jsonschema:"waiting, if decisions are pending; otherwise how the turn ended, such as completed"`
	Output  any               `json:"output,omitempty" jsonschema:"the structured output of the agent, if it has one"`
	Pending []Pending         `json:"pending,omitempty"`
}

// Pending is a question that a person must answer.
type Pending struct {
	Approval content.ApprovalID `json:"approval"`
	Tool     string             `json:"tool"`
	Input    any                `json:"input,omitempty"`
	Asks     string             `json:"asks"`
}

// waiting is the state of a turn that waits for answers to questions.
const waiting = "waiting"

// Call projects a stream onto one turn. It is done when the turn is over, or waits for decisions.
type Call struct {
	session  content.SessionID
	turn     *stream.Turn
	id       content.TurnID
	reported uint64 // progress up to this entry was already reported
	known    uint64 // questions before this entry are no longer open
	entry    uint64 // the last one that was shown

	tell   func(string)
	line   strings.Builder // of the text that is being written
	text   string          // of the last reply
	output any             // structured output of the last reply
	open   []events.Approval
	ended  *stream.Ended
	gone   string // why the session was deleted
	done   bool
}

// NewCall returns the projection onto the n-th turn. Its progress was already reported up to the entry reported. The journal has
// entries up to known, so only what the turn waits for at known or later counts.
func NewCall(session content.SessionID, n int, reported, known uint64) *Call {
	return &Call{session: session, id: content.TurnIDFor(n), turn: stream.NewTurn(n), reported: reported, known: known}
}

// Entry returns the last entry that the call was shown.
func (c *Call) Entry() uint64 { return c.entry }

// Open returns the questions that the turn waits for.
func (c *Call) Open() []events.Approval {
	if c.turn.Waits() {
		return c.open
	}
	return nil
}

// Done reports whether the call is done.
func (c *Call) Done() bool { return c.done }

// Show takes an event of the stream, which begins before the turn, and yields lines of progress.
func (c *Call) Show(ev stream.Event, yield func(string)) {
	if c.done {
		return
	}
	if c.tell = yield; c.entry < c.reported {
		c.tell = func(string) {}
	}
	c.turn.Show(ev, c.take)
	switch p, live := any(ev.Live).(events.ToolProgress); {
	case live:
		c.progress(p)
	case ev.Entry != nil:
		if c.entry = ev.Entry.Seq; c.entry >= c.known {
			c.done = c.turn.Over() || c.turn.Waits()
		}
		if d, ok := events.DeletionOf(ev.Entry.Entry); ok {
			c.gone, c.done = "the session was deleted: "+d.String(), true
		}
	}
}

// progress reports a tool's progress messages about a running call.
func (c *Call) progress(p events.ToolProgress) {
	for _, call := range c.turn.Calls() {
		if call.ID == p.Call && p.Text != "" {
			c.tell(call.Tool + ": " + p.Text)
		}
	}
}

// maxArguments limits the size of arguments in a line of progress.
const maxArguments = 200

func (c *Call) take(step stream.Step) {
	switch e := step.(type) {
	case stream.PartPaused:
		c.open = e.Open
	case stream.Grown:
		c.grow(e.Piece)
	case stream.Voided:
		c.line.Reset()
		c.tell("the attempt failed: discard its output")
	case stream.Replied:
		c.text, c.output = "", nil
		for _, it := range e.Reply.Items {
			c.text += it.Text()
			for _, p := range it.Parts {
				if p.Kind == content.StructuredKind {
					c.output = p.Data
				}
			}
		}
	case stream.CallStarted:
		input := e.Call.Input()
		if len(input) > maxArguments {
			input = strings.ToValidUTF8(input[:maxArguments], "") + "…"
		}
		c.tell(e.Call.Tool + " " + input)
	case stream.CallAnswered:
		c.tell(e.Call.Tool + ": " + string(e.Result.Status))
	case stream.Decided:
		c.tell(fmt.Sprintf("%s: %s", e.Outcome.Approval, e.Outcome.Outcome))
	case stream.Ended:
		c.ended = &e
	case stream.PartBegan, stream.RoundBegan, stream.RoundEnded, stream.AttemptBegan, stream.AttemptFailed, stream.Joined, stream.Used:
	}
}

// grow reports the text of replies, line by line.
func (c *Call) grow(p stream.Piece) {
	if p.Kind != content.TextKind {
		return
	}
	c.line.WriteString(p.Text)
	text := c.line.String()
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole && p.Op != content.CommitPart {
			break
		}
		if text = rest; strings.TrimSpace(line) != "" {
			c.tell(line)
		}
		if !whole {
			break
		}
	}
	c.line.Reset()
	c.line.WriteString(text)
}

// Result returns the outcome of the call: as text, as data, and whether it failed.
func (c *Call) Result() (text string, r Result, failed bool) {
	r = Result{Session: c.session, Turn: c.id, Output: c.output}
	switch {
	case c.gone != "":
		r.State = "deleted"
		return c.gone, r, true
	case c.ended == nil:
		r.State = waiting
		for _, a := range c.Open() {
			p := Pending{Approval: a.ID, Tool: a.Tool, Asks: report.QuestionOf(a)}
			if json.Valid(a.Input) {
				p.Input = a.Input
			}
			r.Pending = append(r.Pending, p)
		}
		return c.asks(), r, false
	}
	r.State = string(c.ended.Reason)
	switch c.ended.Reason {
	case content.Completed:
		return c.text, r, false
	case content.Errored, content.Terminated, content.Cancelled, content.Limit:
		failed = true
	case content.ToolCalls, content.MaxTokens, content.Blocked, content.Compaction, content.Other:
	}
	why := "the turn ended: " + r.State
	if c.ended.Failed != nil {
		why += ": " + c.ended.Failed.Message
	}
	return strings.TrimSpace(c.text + "\n\n" + why), r, failed
}

// asks returns a text about the open questions and how to decide them.
func (c *Call) asks() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Session %s is waiting for a person's decision.\n", c.session)
	for _, a := range c.Open() {
		fmt.Fprintf(&b, "- %s %s asks: %s (approval %s)\n", a.Tool, a.Input, report.QuestionOf(a), a.ID)
	}
	fmt.Fprintf(&b, "An approver decides on the gateway's page, with \"turnlog approvals\", or with POST /api/approvals/%s/APPROVAL. "+
		"For the result, then call this tool again with the session and without a prompt.", c.session)
	return b.String()
}

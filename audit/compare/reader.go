package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/tool"
)

// Kind is what a step is.
type Kind string

// The kinds of steps.
const (
	Prompt   Kind = "prompt" // the system prompt
	Input    Kind = "input"
	Reply    Kind = "reply"  // the text of a reply
	Call     Kind = "call"   // a call in a reply
	Result   Kind = "result" // the result of a call
	Decision Kind = "decision"
	End      Kind = "end" // the end of a turn
)

// Step is one thing that happened.
type Step struct {
	Kind Kind         `json:"kind"`
	Tool string       `json:"tool,omitempty"` // tool of a call, its result and its decision
	Line string       `json:"line"`           // the text that is compared
	Seq  uint64       `json:"seq"`            // sequence of the entry
	At   content.Time `json:"at"`
}

// same reports whether two steps say the same.
func (s Step) same(t Step) bool { return s.Kind == t.Kind && s.Tool == t.Tool && s.Line == t.Line }

// Side is one session of a comparison.
type Side struct {
	Session content.SessionID `json:"session"`
	Entries uint64            `json:"entries"`
	Turns   int               `json:"turns"`
	Rounds  int               `json:"rounds"` // model calls that ended with a reply
	Calls   int               `json:"calls"`
	Usage   content.Usage     `json:"usage"`
	Outcome string            `json:"outcome"` // how the last turn ended; "": it has not, or there is none
	Open    bool              `json:"open"`    // a turn has not ended
}

// Reader reads one journal. The zero Reader is ready for use by one goroutine.
type Reader struct {
	Side

	steps []Step
	tools map[content.CallID]string
	order map[content.CallID]int // of calls
	calls []int                  // the order of the call of each of the last steps, if these are results
}

// Add reads the next record of the journal.
func (r *Reader) Add(rec journal.Record) {
	r.Session, r.Entries = rec.Entry.Session, rec.Seq
	for _, ev := range rec.Entry.Events {
		r.fold(rec, ev)
	}
}

func (r *Reader) fold(rec journal.Record, ev events.Event) {
	step := func(k Kind, tool, line string) {
		r.calls = nil
		r.steps = append(r.steps, Step{Kind: k, Tool: tool, Line: line, Seq: rec.Seq, At: rec.Entry.At})
	}
	switch ev := ev.(type) { //nolint:gochecksumtype // the others differ between any two sessions, or follow from these
	case events.RunStarted:
		r.history(ev.Transcript, step)
	case events.TurnStarted:
		r.Outcome, r.Open = "", true
	case events.InputQueued:
		for _, it := range ev.Items {
			step(Input, "", text(it))
		}
	case events.ReplyRecorded:
		r.Rounds++
		for _, it := range ev.Items {
			if t := text(it); t != "" {
				step(Reply, "", t)
			}
		}
	case events.ToolCallRequested:
		if r.tools == nil {
			r.tools, r.order = make(map[content.CallID]string), make(map[content.CallID]int)
		}
		r.tools[ev.Call.ID], r.order[ev.Call.ID] = ev.Call.Name, r.Calls
		r.Calls++
		step(Call, ev.Call.Name, string(tool.Canonical(ev.Call.Input)))
	case events.ApprovalResolved:
		line := string(ev.Outcome)
		if len(ev.Input) > 0 {
			line += " with " + string(tool.Canonical(ev.Input))
		}
		step(Decision, r.tools[ev.Call], join(line, ev.Reason))
	case events.ToolResultReceived:
		r.result(Step{Kind: Result, Tool: ev.Result.Name, Line: join(string(ev.Result.Status), ev.Result.Text()), Seq: rec.Seq, At: rec.Entry.At}, r.order[ev.Result.CallID])
	case events.UsageUpdated:
		r.Usage = r.Usage.Add(ev.Usage)
	case events.TurnFinished:
		r.Turns++
		r.Outcome, r.Open = string(ev.FinishReason), false
		step(End, "", join(r.Outcome, ev.Error))
	}
}

// history adds the content with which a session begins, such as the history of a fork. It has no decisions, and no ends of
// failed turns.
func (r *Reader) history(items []content.Item, step func(k Kind, tool, line string)) {
	for _, it := range items {
		said := text(it)
		switch it.Kind {
		case content.System:
			step(Prompt, "", said)
		case content.Assistant:
			if said != "" {
				step(Reply, "", said)
			}
			for _, c := range it.Calls() {
				step(Call, c.Name, string(tool.Canonical(c.Input)))
			}
			if it.FinishReason != "" && it.FinishReason != content.ToolCalls {
				step(End, "", string(it.FinishReason))
			}
		case content.Tool:
			for _, res := range it.Results() {
				step(Result, res.Name, join(string(res.Status), res.Text()))
			}
		default:
			step(Input, "", said)
		}
	}
}

// result adds a result before the results of later calls, since the order in which calls end depends on timing.
func (r *Reader) result(s Step, call int) {
	i := len(r.calls)
	for i > 0 && r.calls[i-1] > call {
		i--
	}
	r.steps = slices.Insert(r.steps, len(r.steps)-len(r.calls)+i, s)
	r.calls = slices.Insert(r.calls, i, call)
}

func join(what, more string) string {
	if more == "" {
		return what
	}
	return what + ": " + more
}

// text returns the text of an item, and a line for each of its files.
func text(it content.Item) string {
	var parts []string
	for _, p := range it.Parts {
		switch {
		case p.Media != nil:
			parts = append(parts, fmt.Sprintf("[%s %s, %d bytes]", p.Kind, p.Name, p.Size()))
		case p.Kind == content.TextKind:
			parts = append(parts, p.Text)
		}
	}
	return strings.Join(parts, "\n")
}

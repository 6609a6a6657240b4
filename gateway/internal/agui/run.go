package agui

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Event is an event of the protocol. Its keys are sorted when it is written.
type Event = map[string]any

// version is the version of the protocol.
const version = "1.0"

// Run projects a stream that begins with the session onto the events of one run.
type Run struct {
	thread content.SessionID
	id     string

	turn        int // the run shows parts of this turn; if it is 0,
	first, last int
	after       uint64 // it shows what follows this entry

	n        int          // number of the open turn or the last turn
	current  *stream.Turn // nil: none
	open     []events.Approval
	messages []Event
	base     int      // messages before the attempt in flight
	growing  *growing // the part of a reply that is open; nil: none
	step     string   // the step that is open at the client; "": none

	on, over bool
	usage    content.Usage
	yield    func(Event)
}

// NewRun returns the run that shows the parts first to last of the n-th turn.
func NewRun(thread content.SessionID, id string, n, first, last int) *Run {
	return &Run{thread: thread, id: id, turn: n, first: first, last: last, messages: []Event{}}
}

// Rejoin returns the run of a client that has the session up to an entry, or less: snapshots, then what follows
// until the open turn waits or ends.
func Rejoin(thread content.SessionID, id string, after uint64) *Run {
	return &Run{thread: thread, id: id, after: after, messages: []Event{}}
}

// Show takes an event of the stream, yields the events that follow from it, and reports whether the run is over.
func (r *Run) Show(ev stream.Event, yield func(Event)) (over bool) {
	if r.over {
		return true
	}
	r.yield = yield
	if r.current != nil {
		r.current.Show(ev, r.take)
	}
	if ev.Entry != nil {
		r.record(*ev.Entry, ev)
	}
	return r.over
}

// record handles the events of an entry that are not about the open turn.
func (r *Run) record(rec journal.Record, ev stream.Event) {
	accepted := 0
	for _, e := range rec.Entry.Events {
		switch e := any(e).(type) {
		case events.InputAccepted:
			if r.current == nil || e.Turn.Number() != r.n {
				r.onInput(e, rec.Entry.Cause, accepted)
			}
			accepted += len(e.Items)
		case events.TurnStarted:
			r.n, r.current, r.open = e.Turn.Number(), stream.NewTurn(e.Turn.Number()), nil
			r.current.Show(ev, r.take)
		}
	}
	if d, ok := events.DeletionOf(rec.Entry); ok {
		r.on = true
		r.end(Event{"type": "RUN_ERROR", "message": "the session was deleted: " + d.String(), "code": "deleted"})
	}
	if r.turn == 0 && !r.on && rec.Seq >= r.after {
		r.rejoin()
	}
}

func (r *Run) put(kind string, e Event) {
	if r.on && !r.over {
		e["type"] = kind
		r.yield(e)
	}
}

// end yields the last event.
func (r *Run) end(e Event) {
	if r.on && !r.over {
		r.over = true
		r.yield(e)
	}
}

func (r *Run) start() {
	r.on = true
	r.put("RUN_STARTED", Event{"threadId": r.thread, "runId": r.id, "protocolVersion": version})
}

// rejoin starts the run with snapshots. A reply that is being written continues in the snapshot's messages.
func (r *Run) rejoin() {
	r.start()
	r.snapshots()
	switch {
	case r.current == nil || r.current.Over():
		r.finish(Event{"type": "success"}, "")
	case r.current.Waits():
		r.interrupt()
	case r.growing != nil:
		r.announce()
	}
}

func (r *Run) snapshots() {
	state := Event{"session": r.thread, "state": "idle"}
	if r.n > 0 {
		state["turn"] = content.TurnIDFor(r.n)
	}
	switch {
	case r.current == nil || r.current.Over():
	case r.current.Waits():
		state["state"] = "approval"
	default:
		state["state"] = "working"
	}
	r.put("STATE_SNAPSHOT", Event{"snapshot": state})
	r.put("MESSAGES_SNAPSHOT", Event{"messages": r.messages})
}

// take shows a step of the open turn.
func (r *Run) take(step stream.Step) {
	switch e := step.(type) {
	case stream.PartBegan:
		if r.n == r.turn && e.Part == r.first {
			r.start()
		}
	case stream.PartPaused:
		if r.open = slices.Clone(e.Open); r.turn == 0 || r.current.Part() >= r.last {
			r.snapshots()
			r.interrupt()
		}
	case stream.RoundBegan:
		if r.on {
			r.step = fmt.Sprintf("t%d-r%d", r.n, e.Round)
			r.put("STEP_STARTED", Event{"stepName": r.step})
		}
	case stream.RoundEnded:
		r.endStep()
	case stream.AttemptBegan:
		r.base = len(r.messages)
	case stream.Grown:
		r.grow(e)
	case stream.Voided:
		r.close()
		r.messages = r.messages[:min(r.base, len(r.messages))]
		r.put("MESSAGES_SNAPSHOT", Event{"messages": r.messages})
	case stream.Replied:
		for _, it := range e.Reply.Items {
			for _, p := range it.Parts {
				if p.Kind == content.StructuredKind {
					r.put("CUSTOM", Event{"name": "structured", "value": p.Data})
				}
			}
		}
	case stream.CallAnswered:
		r.answer(e.Call, e.Result.Text())
	case stream.Joined:
		r.join(e)
	case stream.Used:
		if r.on {
			r.usage = r.usage.Add(e.Usage)
		}
	case stream.Ended:
		r.finishTurn(e)
	case stream.CallStarted:
		if e.Patched {
			r.patch(e.Call)
		}
	case stream.AttemptFailed, stream.Decided:
	}
}

func (r *Run) endStep() {
	if r.step != "" {
		r.put("STEP_FINISHED", Event{"stepName": r.step})
		r.step = ""
	}
}

// interrupt ends the run with the questions that are open.
func (r *Run) interrupt() {
	var all []Event
	for _, a := range r.open {
		e := Event{
			"id": interruptID(a), "reason": "tool_call", "toolCallId": a.TaskID, "responseSchema": responseSchema(),
			"metadata": Event{"arguments": a.Input}, // the messages have those of a person only once the call starts
		}
		if a.Summary != "" {
			e["message"] = a.Summary
		}
		if a.ExpiresAt != 0 {
			e["expiresAt"] = a.ExpiresAt.Std().Format(time.RFC3339Nano)
		}
		all = append(all, e)
	}
	r.finish(Event{"type": "interrupt", "interrupts": all}, "")
}

// responseSchema describes how a question is answered.
func responseSchema() Event {
	return Event{"type": "object", "required": []string{"approved"}, "properties": Event{
		"approved":   Event{"type": "boolean"},
		"reason":     Event{"type": "string", "description": "The agent sees the reason of a denial."},
		"editedArgs": Event{"type": "object", "description": "The tool gets these arguments instead of the agent's."},
	}}
}

func (r *Run) finishTurn(e stream.Ended) {
	for _, c := range r.current.Calls() {
		if !c.Answered {
			r.answer(c, "the turn ended before the call had a result")
		}
	}
	if r.turn != 0 && r.n != r.turn {
		return
	}
	switch e.Reason {
	case content.Cancelled:
		r.finish(Event{"type": "cancelled"}, e.Reason)
	case content.Errored, content.Terminated:
		r.close()
		r.endStep()
		out := Event{"type": "RUN_ERROR", "message": "the turn ended: " + string(e.Reason), "code": e.Reason, "usage": r.used()}
		if e.Failed != nil {
			out["message"], out["code"] = e.Failed.Message, e.Failed.Code
		}
		r.end(out)
	default:
		r.finish(Event{"type": "success"}, e.Reason)
	}
}

// finish ends the run. reason is why the turn ended; "": it did not, or long ago.
func (r *Run) finish(outcome Event, reason content.FinishReason) {
	r.close()
	r.endStep()
	out := Event{"type": "RUN_FINISHED", "threadId": r.thread, "runId": r.id, "outcome": outcome, "usage": r.used()}
	if reason != "" {
		out["metadata"] = Event{"turn": content.TurnIDFor(r.n), "finishReason": reason}
	}
	r.end(out)
}

func (r *Run) used() []Event {
	return []Event{{"inputTokens": r.usage.InputTokens, "outputTokens": r.usage.OutputTokens, "totalTokens": r.usage.TotalTokens()}}
}

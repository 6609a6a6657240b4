package openai

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Event is an event of the stream of a response.
type Event struct {
	Type     string
	Sequence int64
	Data     map[string]any // the whole event, including the type and the number
}

// A sequence number consists of an entry, counted from the first entry of the turn, and a place after it. The events of
// the entry come first, then the pieces of the reply whose attempt the entry starts. Other entries may follow while the
// pieces arrive. The numbers do not depend on them, since in the journal they come before the whole reply.
const (
	entryShift  = 33
	pieceStart  = 1 << 20
	pieceFactor = 8 // the maximum number of events of a piece
)

// Responses projects the stream of a session onto one response. Its stream begins at or before the response.
type Responses struct {
	id    ID
	model string
	after int64 // nothing is yielded up to this number

	turn    *stream.Turn
	first   uint64 // the entry that starts the turn; 0: not seen
	entry   uint64 // the last one
	number  int64  // of the next event
	ended   bool   // the last part has ended
	over    bool   // the response is complete
	created content.Time

	output  []*item
	asked   []events.Approval          // the questions with which the response ended
	calls   map[*stream.ToolCall]*item // the calls of the round, in all parts
	held    int                        // number of output items before the attempt in flight
	attempt uint64                     // the entry that starts the last attempt
	flight  bool                       // that attempt has neither ended nor been taken back
	usage   content.Usage
	status  string
	failed  *events.RunFailed
	reason  content.FinishReason
	yield   func(Event)
}

// NewResponses returns the projection onto a response, without the events up to a sequence number. model is the name
// of the model in the response.
func NewResponses(id ID, model string, after int64) *Responses {
	return &Responses{id: id, turn: stream.NewTurn(id.Turn), model: model, after: after, status: "queued"}
}

// Begun reports whether the response exists.
func (r *Responses) Begun() bool { return r.turn.Part() >= r.id.Part }

// Over reports whether the response is complete.
func (r *Responses) Over() bool { return r.over }

// Part returns the current part of the turn, or the last one.
func (r *Responses) Part() int { return r.turn.Part() }

// ID returns the ID of the response.
func (r *Responses) ID() ID { return r.id }

// inPart reports whether the current part belongs to the response.
func (r *Responses) inPart() bool { return r.turn.Part() == r.id.Part && !r.over }

// Show takes an event of the stream, yields what follows from it, and reports whether the response is complete.
func (r *Responses) Show(ev stream.Event, yield func(Event)) (over bool) {
	if r.over {
		return true
	}
	r.yield = yield
	switch {
	case ev.Entry != nil:
		r.record(*ev.Entry)
	case ev.Void != nil:
		r.at(r.entry+1, 0)
	case ev.Piece != nil:
		r.at(r.attempt, pieceStart+int64(ev.Cursor.Offset)*pieceFactor)
	}
	r.turn.Show(ev, r.step)
	if d, gone := deletedBy(ev); gone && !r.over { // the turn has no other end
		r.failed = &events.RunFailed{Code: deleted, Message: d}
		r.end(content.Errored)
	}
	return r.over
}

// emit yields an event with the next number.
func (r *Responses) emit(kind string, data object) {
	n := r.number
	r.number++
	if !r.inPart() || n <= r.after {
		return
	}
	data["type"], data["sequence_number"] = kind, n
	r.yield(Event{kind, n, data})
}

func (r *Responses) at(entry uint64, place int64) {
	r.number = int64(entry-r.first)<<entryShift | place //nolint:gosec // a turn has fewer than 2^20 entries
}

// record stores the place of an entry.
func (r *Responses) record(rec journal.Record) {
	r.entry = rec.Seq
	for _, ev := range rec.Entry.Events {
		if s, ok := ev.(events.TurnStarted); ok && s.Turn.Number() == r.id.Turn {
			r.first, r.created = rec.Seq, rec.Entry.At
		}
	}
	r.at(rec.Seq, 1)
}

// step shows a step of the turn.
func (r *Responses) step(step stream.Step) {
	switch e := step.(type) {
	case stream.PartBegan:
		r.begin()
	case stream.PartPaused:
		r.pause(e.Open)
	case stream.RoundBegan:
		r.calls = make(map[*stream.ToolCall]*item)
	case stream.AttemptBegan:
		r.held, r.attempt, r.flight = len(r.output), r.entry, true
	case stream.AttemptFailed:
		r.missed(e.Call)
	case stream.Grown:
		r.piece(e)
	case stream.Voided:
		r.void(e.Call)
	case stream.Replied:
		r.flight = false
	case stream.CallStarted:
		if it := r.calls[e.Call]; it != nil {
			r.emit("response.mcp_call.in_progress", object{"output_index": it.index, "item_id": it.id})
		}
	case stream.CallAnswered:
		if it := r.calls[e.Call]; it != nil {
			r.answer(it, e.Result.Text(), e.Result.IsError)
		}
	case stream.Used:
		r.usage = r.usage.Add(e.Usage)
	case stream.Ended:
		r.failed = e.Failed
		r.end(e.Reason)
	case stream.RoundEnded, stream.Decided, stream.Joined:
	}
}

// begin begins a part of the turn.
func (r *Responses) begin() {
	r.ended, r.status, r.output, r.held, r.usage = false, inProgress, nil, 0, content.Usage{}
	r.emit("response.created", object{"response": r.Response()})
	r.emit("response.in_progress", object{"response": r.Response()})
	for _, c := range r.turn.Calls() { // calls that were asked about continue
		if it := r.calls[c]; it != nil && it.status == incomplete {
			it.status = inProgress
			r.add(it)
		}
	}
}

func (r *Responses) add(it *item) {
	it.index = len(r.output)
	r.output = append(r.output, it)
	r.emit("response.output_item.added", object{"output_index": it.index, "item": it.json()})
}

func (r *Responses) done(it *item) {
	r.emit("response.output_item.done", object{"output_index": it.index, "item": it.json()})
}

// Asks returns a question with which the response ended.
func (r *Responses) Asks(id content.ApprovalID) (events.Approval, bool) {
	i := slices.IndexFunc(r.asked, func(a events.Approval) bool { return a.ID == id })
	if i < 0 {
		return events.Approval{}, false
	}
	return r.asked[i], true
}

// pause ends a part with the questions that are open.
func (r *Responses) pause(open []events.Approval) {
	if r.inPart() {
		r.asked = slices.Clone(open)
	}
	for _, it := range r.output {
		if it.status == inProgress {
			it.status = incomplete
			r.done(it)
		}
	}
	for _, a := range open {
		it := asks(a)
		r.add(it)
		r.done(it)
	}
	r.finish(completed)
}

func (r *Responses) finish(status string) {
	r.status, r.ended = status, true
	kind := "response." + status
	r.emit(kind, object{"response": r.Response()})
	if r.inPart() {
		r.over = true
	}
}

func (r *Responses) answer(it *item, text string, isError bool) {
	kind := "response.mcp_call.completed"
	if it.status, it.output = completed, text; isError {
		it.status, it.failed, kind = failed, text, "response.mcp_call.failed"
	}
	r.emit(kind, object{"output_index": it.index, "item_id": it.id})
	r.done(it)
}

// end ends the turn.
func (r *Responses) end(reason content.FinishReason) {
	for _, it := range r.output {
		if it.status == inProgress {
			it.status = incomplete
			r.done(it)
		}
	}
	r.reason = reason
	switch reason {
	case content.Cancelled:
		r.finish("cancelled")
	case content.MaxTokens, content.Limit, content.Blocked, content.Compaction:
		r.finish(incomplete)
	case content.Errored, content.Terminated, content.Other:
		r.finish(failed)
	case content.Completed, content.ToolCalls:
		r.finish(completed)
	default:
		r.finish(completed)
	}
	r.over = true // no later part follows
}

// piece handles a piece of a reply.
func (r *Responses) piece(e stream.Grown) {
	switch p := e.Piece; p.Op {
	case content.BeginPart:
		it := newItem(p, e.Call)
		if e.Call != nil {
			r.calls[e.Call] = it
		}
		r.add(it)
		switch it.kind {
		case messageKind:
			r.emit("response.content_part.added", object{"item_id": it.id, "output_index": it.index, "content_index": 0, "part": textPart("")})
		case reasoningKind:
			r.emit("response.content_part.added", object{
				"item_id": it.id, "output_index": it.index, "content_index": 0, "part": object{"type": "reasoning_text", "text": ""},
			})
		}
	case content.AppendPart:
		if it := r.last(); it != nil {
			it.text.WriteString(p.Text)
			r.grow(it, p.Text)
		}
	case content.CommitPart:
		if it := r.last(); it != nil {
			r.commit(it)
		}
	}
}

func (r *Responses) last() *item {
	if len(r.output) == 0 {
		return nil
	}
	return r.output[len(r.output)-1]
}

// grow yields the addition of a piece. A client that has the beginning of the piece gets only the rest.
func (r *Responses) grow(it *item, text string) {
	if begin := r.number - int64(len(text))*pieceFactor; r.after > begin && r.after < r.number {
		text = text[(r.after-begin)/pieceFactor:]
	}
	switch it.kind {
	case callKind:
		r.emit("response.mcp_call_arguments.delta", object{"item_id": it.id, "output_index": it.index, "delta": text})
	case reasoningKind:
		r.emit("response.reasoning_text.delta", object{"item_id": it.id, "output_index": it.index, "content_index": 0, "delta": text})
	default:
		r.emit("response.output_text.delta", object{"item_id": it.id, "output_index": it.index, "content_index": 0, "delta": text, "logprobs": []object{}})
	}
}

// commit ends a part.
func (r *Responses) commit(it *item) {
	text := it.text.String()
	switch it.kind {
	case callKind: // its result ends the item
		r.emit("response.mcp_call_arguments.done", object{"item_id": it.id, "output_index": it.index, "arguments": text})
		return
	case reasoningKind:
		r.emit("response.reasoning_text.done", object{"item_id": it.id, "output_index": it.index, "content_index": 0, "text": text})
		r.emit("response.content_part.done", object{
			"item_id": it.id, "output_index": it.index, "content_index": 0, "part": object{"type": "reasoning_text", "text": text},
		})
	default:
		r.emit("response.output_text.done", object{"item_id": it.id, "output_index": it.index, "content_index": 0, "text": text, "logprobs": []object{}})
		r.emit("response.content_part.done", object{"item_id": it.id, "output_index": it.index, "content_index": 0, "part": textPart(text)})
	}
	it.status = completed
	r.done(it)
}

// void takes back the pieces of an attempt. The attempt ends with the next entry.
func (r *Responses) void(c stream.Call) {
	r.output, r.flight = r.output[:min(r.held, len(r.output))], false
	r.emit("turnlog.void", object{"output_index": r.held, "round": c.Round, "attempt": c.Attempt})
}

// missed tells a client about a void attempt whose pieces it received from an earlier stream.
func (r *Responses) missed(c stream.Call) {
	if !r.flight {
		return
	}
	next := r.number
	r.at(r.attempt, pieceStart)
	began := r.number
	if r.at(r.entry, 0); began < r.after && r.after < r.number {
		r.emit("turnlog.void", object{"output_index": r.held, "round": c.Round, "attempt": c.Attempt})
	}
	r.number, r.flight = next, false
}

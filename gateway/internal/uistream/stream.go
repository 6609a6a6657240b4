package uistream

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Chunk is a chunk of the stream. Its keys are sorted when it is written.
type Chunk = map[string]any

// Stream projects the stream of a session onto the chunks of one turn, from one of its parts to another.
type Stream struct {
	session     content.SessionID
	id          content.TurnID
	turn        *stream.Turn
	first, last int // parts

	refused map[content.Place]bool // calls that were not approved
	usage   content.Usage
	over    bool
	yield   func(Chunk)
}

// NewStream returns the projection onto the parts first to last of the n-th turn. The stream of the session begins
// at or before the turn.
func NewStream(s content.SessionID, n, first, last int) *Stream {
	return &Stream{session: s, id: content.TurnIDFor(n), turn: stream.NewTurn(n), first: first, last: last, refused: make(map[content.Place]bool)}
}

// Show takes an event of the stream, yields the chunks that follow from it, and reports whether they are complete.
func (s *Stream) Show(ev stream.Event, yield func(Chunk)) (over bool) {
	if s.over {
		return true
	}
	s.yield = yield
	s.turn.Show(ev, s.step)
	if ev.Entry != nil && !s.over {
		if d, ok := events.DeletionOf(ev.Entry.Entry); ok {
			s.over = true
			yield(Chunk{"type": "error", "errorText": "the session was deleted: " + d.String()})
		}
	}
	return s.over
}

// put yields a chunk if it belongs to the requested parts.
func (s *Stream) put(kind string, c Chunk) {
	if p := s.turn.Part(); !s.over && p >= s.first && p <= s.last {
		c["type"] = kind
		s.yield(c)
	}
}

// step shows a step of the turn.
func (s *Stream) step(step stream.Step) {
	switch e := step.(type) {
	case stream.PartBegan:
		if e.Part == s.first {
			s.put("start", Chunk{"messageId": s.id, "messageMetadata": Chunk{"session": s.session, "turn": s.id}})
		}
	case stream.PartPaused:
		for _, a := range e.Open {
			c := Chunk{"approvalId": a.ID, "toolCallId": a.TaskID}
			if a.Summary != "" {
				c["reason"] = a.Summary
			}
			s.put("tool-approval-request", c)
		}
		if s.turn.Part() >= s.last {
			s.put("finish-step", Chunk{})
			s.finish("tool-calls", "")
		}
	case stream.RoundBegan:
		s.put("start-step", Chunk{})
	case stream.RoundEnded:
		s.put("finish-step", Chunk{})
	case stream.Grown:
		s.grow(e)
	case stream.Voided:
		s.put("reset-step", Chunk{})
	case stream.Replied:
		for _, it := range e.Reply.Items {
			s.attach(e.Reply, it)
		}
	case stream.Decided:
		s.decide(e)
	case stream.CallStarted:
		if e.Patched {
			s.available(e.Call)
		}
	case stream.CallAnswered:
		s.answer(e)
	case stream.Joined:
		s.join(e)
	case stream.Used:
		s.usage = s.usage.Add(e.Usage)
	case stream.Ended:
		s.end(e)
	case stream.AttemptBegan, stream.AttemptFailed:
	}
}

// decide shows a decision. Without a call it is about an earlier round, which clients no longer show.
func (s *Stream) decide(e stream.Decided) {
	if e.Call == nil {
		return
	}
	outcome := e.Outcome.Outcome
	s.refused[e.Call.Place] = outcome != events.Approved
	c := Chunk{"approvalId": e.Outcome.Approval, "approved": outcome == events.Approved}
	switch {
	case e.Outcome.Reason != "":
		c["reason"] = e.Outcome.Reason
	case outcome != events.Approved && outcome != events.Denied:
		c["reason"] = outcome
	}
	s.put("tool-approval-response", c)
}

// grow shows a piece of a reply.
func (s *Stream) grow(e stream.Grown) {
	p := e.Piece
	if e.Call != nil {
		switch p.Op {
		case content.BeginPart:
			s.put("tool-input-start", Chunk{"toolCallId": e.Call.Place, "toolName": p.Tool, "dynamic": true, "providerExecuted": true})
		case content.AppendPart:
			s.put("tool-input-delta", Chunk{"toolCallId": e.Call.Place, "inputTextDelta": p.Text})
		case content.CommitPart:
			s.available(e.Call)
		}
		return
	}
	kind := "text"
	switch p.Kind {
	case content.TextKind:
	case content.ReasoningKind:
		kind = "reasoning"
	default:
		return // the entry has the part
	}
	c := Chunk{"id": fmt.Sprintf("%d.%d.%d.%d", p.Turn.Number(), p.Round, p.Attempt, p.Part)}
	switch p.Op {
	case content.BeginPart:
		s.put(kind+"-start", c)
	case content.AppendPart:
		c["delta"] = p.Text
		s.put(kind+"-delta", c)
	case content.CommitPart:
		s.put(kind+"-end", c)
	}
}

// attach shows the parts of a reply that have no pieces.
func (s *Stream) attach(r events.ReplyRecorded, it content.Item) {
	for i, p := range it.Parts {
		switch {
		case p.Kind == content.StructuredKind:
			s.put("data-structured", Chunk{"id": fmt.Sprintf("%d.%d.%d.%d", r.Turn.Number(), r.Round, r.Attempt, i), "data": jsonOf(string(p.Data))})
		case p.Media != nil && len(p.Media.Bytes) > 0:
			s.put("file", Chunk{"mediaType": p.Media.MIME, "url": "data:" + p.Media.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Media.Bytes)})
		}
	}
}

// available shows the arguments of a call.
func (s *Stream) available(c *stream.ToolCall) {
	s.put("tool-input-available", Chunk{
		"toolCallId": c.Place, "toolName": c.Tool, "input": jsonOf(c.Input()), "dynamic": true, "providerExecuted": true,
	})
}

// jsonOf parses a text as JSON, or returns it as a string if it is not JSON.
func jsonOf(text string) any {
	switch {
	case text == "":
		return Chunk{}
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return text
}

func (s *Stream) answer(e stream.CallAnswered) {
	c := Chunk{"toolCallId": e.Call.Place}
	switch out := e.Result.Output; {
	case e.Result.IsError && s.refused[e.Call.Place]:
		s.put("tool-output-denied", c)
	case e.Result.IsError:
		c["errorText"] = e.Result.Text()
		s.put("tool-output-error", c)
	case len(out) == 1 && out[0].Kind == content.StructuredKind:
		c["output"] = jsonOf(string(out[0].Data))
		s.put("tool-output-available", c)
	default:
		c["output"] = e.Result.Text()
		s.put("tool-output-available", c)
	}
}

// join shows a user's message that joined the running turn.
func (s *Stream) join(e stream.Joined) {
	for i, it := range e.Input.Items {
		if it.Kind == content.User {
			s.put("steering-message", Chunk{"id": stream.MessageID(e.Cause, e.Before+i), "parts": partsOf(it)})
		}
	}
}

func (s *Stream) end(e stream.Ended) {
	for _, c := range s.turn.Calls() {
		if !c.Answered {
			s.put("tool-output-error", Chunk{"toolCallId": c.Place, "errorText": "the turn ended before the call had a result"})
		}
	}
	s.usage = e.Usage
	switch e.Reason {
	case content.Completed, content.ToolCalls:
		s.finish("stop", e.Reason)
	case content.MaxTokens, content.Limit:
		s.finish("length", e.Reason)
	case content.Blocked:
		s.finish("content-filter", e.Reason)
	case content.Cancelled:
		s.put("abort", Chunk{"reason": "the turn was cancelled"})
		s.finish("interrupted", e.Reason)
	case content.Errored, content.Terminated:
		s.finish("error", e.Reason)
		s.fail(e)
	default:
		s.finish("other", e.Reason)
	}
}

// fail shows why a turn failed. It comes last: clients stop reading after it.
func (s *Stream) fail(e stream.Ended) {
	text := "the turn ended: " + string(e.Reason)
	if e.Failed != nil {
		text = e.Failed.Code + ": " + e.Failed.Message
	}
	if s.first <= s.turn.Part() {
		s.yield(Chunk{"type": "error", "errorText": text})
	}
}

// finish ends the response. reason is why the turn ended; "": it waits.
func (s *Stream) finish(kind string, reason content.FinishReason) {
	meta := Chunk{"usage": Chunk{
		"inputTokens": s.usage.InputTokens, "outputTokens": s.usage.OutputTokens, "totalTokens": s.usage.TotalTokens(),
		"reasoningTokens": s.usage.ReasoningTokens, "cachedInputTokens": s.usage.CacheReadTokens,
	}}
	if reason != "" {
		meta["finishReason"] = reason
	}
	s.put("finish", Chunk{"finishReason": kind, "messageMetadata": meta})
	s.over = s.turn.Part() >= s.last || reason != ""
}

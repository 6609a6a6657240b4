package session

import (
	"context"
	"iter"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// StreamEvent is what Stream yields. It is sealed; more kinds may come.
//
//sumtype:decl
type StreamEvent interface{ streamEvent() }

// TextDelta is a piece of the answer's text.
type TextDelta struct{ Text string }

// ReasoningDelta is a piece of the model's reasoning.
type ReasoningDelta struct{ Text string }

// Retry says that a model call starts over: the deltas since the last MessageComplete, or since the
// stream began, are void.
type Retry struct{ Attempt int }

// ToolUse is a call with complete arguments, once per call.
type ToolUse struct{ Call content.ToolCall }

// ToolDone is a call's result.
type ToolDone struct{ Result content.ToolResult }

// UsageUpdate is what one model call used, once per call.
type UsageUpdate struct{ Usage content.Usage }

// MessageComplete is one item of a reply; a model call has one or more.
type MessageComplete struct{ Item content.Item }

func (TextDelta) streamEvent()       {}
func (ReasoningDelta) streamEvent()  {}
func (Retry) streamEvent()           {}
func (ToolUse) streamEvent()         {}
func (ToolDone) streamEvent()        {}
func (UsageUpdate) streamEvent()     {}
func (MessageComplete) streamEvent() {}

// stream translates the updates of a turn. Deltas and records arrive on different paths, so it
// tracks the model's attempts in both.
type stream struct{ round, attempt int }

// next translates an event into stream events; most events have none.
func (s *stream) next(ev any) (out []StreamEvent) {
	switch ev := ev.(type) {
	case events.ModelCallStarted:
		_, out = s.attempted(ev.Round, ev.Attempt)
	case events.ContentDelta:
		current, out := s.attempted(ev.Round, ev.Attempt)
		switch {
		case !current || ev.Delta.Op != content.AppendPart:
		case ev.Delta.Kind == content.TextKind:
			return append(out, TextDelta{ev.Delta.Text})
		case ev.Delta.Kind == content.ReasoningKind:
			return append(out, ReasoningDelta{ev.Delta.Text})
		}
		return out
	case events.ReplyRecorded:
		for _, it := range ev.Items {
			out = append(out, MessageComplete{it})
		}
	case events.UsageUpdated:
		out = append(out, UsageUpdate{ev.Usage})
	case events.ToolCallRequested:
		out = append(out, ToolUse{ev.Call})
	case events.ToolResultReceived:
		out = append(out, ToolDone{ev.Result})
	}
	return out
}

// attempted reports whether an attempt is the latest one, and returns a Retry if it repeats another one.
func (s *stream) attempted(round, attempt int) (latest bool, again []StreamEvent) {
	switch {
	case round < s.round || round == s.round && attempt < s.attempt:
		return false, nil
	case round == s.round && attempt > s.attempt:
		again = []StreamEvent{Retry{attempt}}
	}
	s.round, s.attempt = round, attempt
	return true, again
}

// Stream runs one turn like Run and yields its events as they happen. Tools run one at a time. An
// error is the last pair. Leaving the loop cancels the turn.
func (s *Session) Stream(ctx context.Context, items ...content.Item) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		t, err := s.turn(ctx, Input{Items: items, Options: &events.TurnOptions{Sequential: true}})
		if err != nil {
			yield(nil, err)
			return
		}
		var out stream
		for u, err := range t.Updates(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if u.Record != nil && !u.Own {
				continue
			}
			if d, ok := u.Event.(events.ContentDelta); ok && t.foreign(d.Turn) {
				continue
			}
			for _, ev := range out.next(u.Event) {
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}

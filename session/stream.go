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
func (ToolUse) streamEvent()         {}
func (ToolDone) streamEvent()        {}
func (UsageUpdate) streamEvent()     {}
func (MessageComplete) streamEvent() {}

// streamed translates an event; most are not part of a stream.
func streamed(ev any) (out []StreamEvent) {
	switch ev := ev.(type) {
	case events.ContentDelta:
		switch {
		case ev.Delta.Op != content.AppendPart:
		case ev.Delta.Kind == content.TextKind:
			out = append(out, TextDelta{ev.Delta.Text})
		case ev.Delta.Kind == content.ReasoningKind:
			out = append(out, ReasoningDelta{ev.Delta.Text})
		}
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

// Stream runs one turn like Run and yields its events as they happen, with tools run one
// at a time. An error is the last pair. Leaving the loop cancels the turn.
func (s *Session) Stream(ctx context.Context, items ...content.Item) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		t, err := s.turn(ctx, Input{Items: items, Options: &events.TurnOptions{Sequential: true}})
		if err != nil {
			yield(nil, err)
			return
		}
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
			for _, ev := range streamed(u.Event) {
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}

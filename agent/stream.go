package agent

import (
	"context"
	"errors"
	"iter"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
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

// MessageComplete is a whole reply, once per model call.
type MessageComplete struct{ Item content.Item }

func (TextDelta) streamEvent()       {}
func (ReasoningDelta) streamEvent()  {}
func (ToolUse) streamEvent()         {}
func (ToolDone) streamEvent()        {}
func (UsageUpdate) streamEvent()     {}
func (MessageComplete) streamEvent() {}

// streamed translates an event of the session; most are not shown by a stream.
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

var errConsumerLeft = errors.New("consumer_left")

// Stream runs one turn like Run and yields what happens as it happens, tools one
// at a time. An error is the last pair. Leaving the loop cancels the turn.
func (d *Driver) Stream(ctx context.Context, items ...content.Item) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		box := &mailbox{news: make(chan struct{}, 1)}
		d.setTap(box.put)
		defer d.setTap(nil)
		result := make(chan error, 1)
		go func() { result <- d.runStreamed(ctx, items) }()
		for {
			select {
			case <-box.news:
			case err := <-result:
				if box.drain(yield) && err != nil {
					yield(nil, err)
				}
				return
			}
			if !box.drain(yield) {
				cancel(errConsumerLeft)
				if err := <-result; err != nil && !errors.Is(err, ErrCancelled) {
					d.log.Warn("the turn of a stream that was left ended in an error", zap.Error(err))
				}
				return
			}
		}
	}
}

func (d *Driver) runStreamed(ctx context.Context, items []content.Item) error {
	if len(items) > 0 {
		err := d.Ask(ctx, commands.SubmitInput{Items: items, Options: &events.TurnOptions{Sequential: true}})
		if err != nil {
			return err
		}
	}
	_, err := d.toEnd(ctx, len(items) == 0)
	return err
}

func (d *Driver) setTap(f func(events.Event)) {
	d.live.Lock()
	defer d.live.Unlock()
	d.tap = f
}

// mailbox holds what a stream's consumer has not taken yet, so that a slow one
// never holds the session.
type mailbox struct {
	news chan struct{}

	mu    sync.Mutex
	items []StreamEvent
}

func (b *mailbox) put(ev events.Event) {
	out := streamed(ev)
	if len(out) == 0 {
		return
	}
	b.mu.Lock()
	b.items = append(b.items, out...)
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// drain hands on what has come, and reports whether the consumer wants more.
func (b *mailbox) drain(yield func(StreamEvent, error) bool) bool {
	b.mu.Lock()
	items := b.items
	b.items = nil
	b.mu.Unlock()
	for _, it := range items {
		if !yield(it, nil) {
			return false
		}
	}
	return true
}

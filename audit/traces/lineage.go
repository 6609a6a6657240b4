package traces

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/tracing"
)

// From is the trace context that the sender of a command passes on.
type From struct {
	Span    trace.SpanContext // invalid: it was not traced
	Baggage string            // a W3C baggage; "": none
}

// FromContext returns the trace context in a context, for a command that is sent with it.
func FromContext(ctx context.Context) From {
	return From{trace.SpanContextFromContext(ctx), tracing.Baggage(ctx)}
}

// Lineage tracks the traces to which the turns of a session belong. It gets the session's events in order.
type Lineage struct {
	queued []queued
	joined []From              // senders of input for the turn that starts next
	turn   content.TurnID      // the open turn
	in     From                // its first traced sender, and the first baggage
	links  []trace.SpanContext // its other senders, since the links were last taken
}

// queued is input that has not joined a turn.
type queued struct {
	from  From
	task  bool
	steer bool
}

// Take processes an event of an entry. from returns the trace context of the sender of the causing command.
func (l *Lineage) Take(e events.Event, from func() From) {
	switch e := e.(type) { //nolint:gochecksumtype // others have no senders
	case events.InputQueued:
		l.queued = append(l.queued, queued{from(), e.Task != nil, e.OnBusy == events.Steer})
	case events.InputAccepted:
		l.accept(e)
	case events.TurnStarted:
		l.start(e)
	case events.TurnFinished:
		l.turn = ""
	}
}

// accept adds input to the open turn, or to the turn that starts.
func (l *Lineage) accept(e events.InputAccepted) {
	if e.Origin != events.FromHost && e.Origin != events.FromParent && e.Origin != events.FromTask {
		return
	}
	into, took := l.turn == e.Turn, false
	l.queued = slices.DeleteFunc(l.queued, func(q queued) bool {
		if q.task != (e.Origin == events.FromTask) || q.task && took || into && !q.steer {
			return false
		}
		took = true
		if into && q.from.Span.IsValid() {
			l.links = append(l.links, q.from.Span)
		} else if !into {
			l.joined = append(l.joined, q.from)
		}
		return true
	})
}

// start begins a turn in the trace of the first traced input, with the first baggage.
func (l *Lineage) start(e events.TurnStarted) {
	l.turn, l.in, l.links = e.Turn, From{}, nil
	for _, from := range l.joined {
		switch {
		case from.Span.IsValid() && l.in.Span.IsValid():
			l.links = append(l.links, from.Span)
		case from.Span.IsValid():
			l.in.Span = from.Span
		}
		l.in.Baggage = cmp.Or(l.in.Baggage, from.Baggage)
	}
	l.joined = nil
}

// Sender returns the sender of the open turn, or nil if it passes nothing on.
func (l *Lineage) Sender() *Sender {
	if l.turn == "" || !l.in.Span.IsValid() && l.in.Baggage == "" {
		return nil
	}
	return &Sender{l.turn, l.in}
}

// Sender is the sender of a turn.
type Sender struct {
	turn content.TurnID
	in   From
}

// Of returns the traceparent and the baggage of a task. The parent is the span of the attempt at the call. Both are "" for a
// call of another turn.
func (s *Sender) Of(session content.SessionID, turn content.TurnID, p content.Place, attempt int) (parent, baggage string) {
	if s == nil || s.turn != turn {
		return "", ""
	}
	if in := s.in.Span; in.IsValid() {
		parent = fmt.Sprintf("00-%s-%s-%s", in.TraceID(), callSpan(session, p, attempt), in.TraceFlags())
	}
	return parent, s.in.Baggage
}

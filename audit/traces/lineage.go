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

// From is what the sender of a command passes on.
type From struct {
	Span    trace.SpanContext // invalid: it was not traced
	Baggage string            // a W3C baggage; "": none
}

// FromContext returns what the sender of the command that a context is for passes on.
func FromContext(ctx context.Context) From {
	return From{trace.SpanContextFromContext(ctx), tracing.Baggage(ctx)}
}

// Lineage follows in whose traces the turns of a session are. It takes the session's events in order.
type Lineage struct {
	queued []queued
	joined []From              // of the input of the turn that starts next
	turn   content.TurnID      // that is open
	in     From                // its first traced sender, and the first baggage
	links  []trace.SpanContext // of the others whose input it took in, since they were last asked for
}

// queued is input that no turn has taken in.
type queued struct {
	from  From
	task  bool
	steer bool
}

// Take takes an event of an entry. from returns what the sender of the command that caused it passes on.
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

// accept takes input into the turn that is open, or into the one that starts.
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

// start begins a turn in the trace of the first input with one, and with the first baggage.
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

// Sender returns the sender of the turn that is open, or nil if it passes nothing on.
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

// Of returns the traceparent of a task, whose parent is the span of that attempt at a call, and its baggage. Both are "" for a
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

package traces

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Lineage follows in whose traces the turns of a session are. It takes the session's events in order.
type Lineage struct {
	queued []queued
	joined []trace.SpanContext // of the input of the turn that starts next
	turn   content.TurnID      // that is open
	in     trace.SpanContext   // the span of its sender; invalid: no sender was traced
	links  []trace.SpanContext // of the others whose input it took in, since they were last asked for
}

// queued is input that no turn has taken in.
type queued struct {
	from  trace.SpanContext
	task  bool
	steer bool
}

// Take takes an event of an entry. from returns the span of the sender whose command caused it, or an invalid one.
func (l *Lineage) Take(e events.Event, from func() trace.SpanContext) {
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
		if q.from.IsValid() {
			l.joined = append(l.joined, q.from)
		}
		return true
	})
	if into {
		l.links, l.joined = append(l.links, l.joined...), nil
	}
}

// start begins a turn in the trace of the first input with one.
func (l *Lineage) start(e events.TurnStarted) {
	l.turn, l.in, l.links = e.Turn, trace.SpanContext{}, nil
	if len(l.joined) > 0 {
		l.in, l.links = l.joined[0], l.joined[1:]
	}
	l.joined = nil
}

// Sender returns the sender of the turn that is open, or nil if none was traced.
func (l *Lineage) Sender() *Sender {
	if l.turn == "" || !l.in.IsValid() {
		return nil
	}
	return &Sender{l.turn, l.in}
}

// Sender is the traced sender of a turn.
type Sender struct {
	turn content.TurnID
	in   trace.SpanContext
}

// TraceParent returns the traceparent of a task: its parent is the span of that attempt at a call. It is "" for a call of
// another turn.
func (s *Sender) TraceParent(of content.SessionID, turn content.TurnID, p content.Place, attempt int) string {
	if s == nil || s.turn != turn {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", s.in.TraceID(), callSpan(of, p, attempt), s.in.TraceFlags())
}

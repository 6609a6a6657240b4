package traces

import (
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/content"
)

// digest returns the digest that identifies something.
func digest(of ...any) [sha256.Size]byte { return sha256.Sum256(fmt.Appendf(nil, "turnlog %q", of)) }

// traceOf returns the trace of a turn whose sender was not traced.
func traceOf(s content.SessionID, turn content.TurnID) (id trace.TraceID) {
	d := digest("trace", s, turn)
	copy(id[:], d[:])
	return id
}

// spanOf returns the ID of a span of a session.
func spanOf(s content.SessionID, about ...any) (id trace.SpanID) {
	d := digest(append([]any{"span", s}, about...)...)
	copy(id[:], d[:])
	return id
}

// callSpan returns the ID of the span of an attempt at a call.
func callSpan(s content.SessionID, p content.Place, attempt int) trace.SpanID {
	return spanOf(s, opTool, p, attempt)
}

// Package tracing carries the trace that a context belongs to through messages, as a W3C traceparent.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const header = "traceparent"

// Parent returns the traceparent of a context, or "" if it belongs to no trace.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() { // as for nearly all appends
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[header]
}

// With returns a context that belongs to the trace of a traceparent. Anything that is not one is ignored: others choose
// it, and it may be of any size.
func With(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: parent})
}

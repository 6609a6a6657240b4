// Package tracing carries the trace of a context and its baggage through messages, as a W3C traceparent and W3C baggage.
package tracing

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of headers.
const (
	HeaderParent  = "traceparent"
	HeaderBaggage = "baggage"
)

// chosen is what this process carries, once Carry was called.
type chosen struct{ propagation.TextMapPropagator }

// Carry sets what this process carries: a list of tracecontext and baggage, or none. Without it, a process carries both.
func Carry(list string) error {
	var all []propagation.TextMapPropagator
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "tracecontext":
			all = append(all, propagation.TraceContext{})
		case "baggage":
			all = append(all, propagation.Baggage{})
		case "none":
		default:
			return fmt.Errorf("%q: only tracecontext, baggage and none are supported", name)
		}
	}
	otel.SetTextMapPropagator(chosen{propagation.NewCompositeTextMapPropagator(all...)})
	return nil
}

func carried() propagation.TextMapPropagator {
	if c, ok := otel.GetTextMapPropagator().(chosen); ok {
		return c
	}
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// Parent returns the traceparent of a context, or "" if it belongs to no trace.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() { // the usual case for appends
		return ""
	}
	return Headers(ctx)[HeaderParent]
}

// Baggage returns the baggage of a context, or "".
func Baggage(ctx context.Context) string {
	if baggage.FromContext(ctx).Len() == 0 {
		return ""
	}
	return Headers(ctx)[HeaderBaggage]
}

// With returns a context with the trace of a traceparent and a baggage. The values are untrusted and may have any size, so
// invalid ones are ignored. As specified, a baggage has at most 64 members and 8192 bytes.
func With(ctx context.Context, parent, baggage string) context.Context {
	if parent == "" && baggage == "" {
		return ctx
	}
	return carried().Extract(ctx, propagation.MapCarrier{HeaderParent: parent, HeaderBaggage: baggage})
}

// Headers returns the headers with the trace of a context and its baggage, if it has them.
func Headers(ctx context.Context) map[string]string {
	c := propagation.MapCarrier{}
	carried().Inject(ctx, c)
	return c
}

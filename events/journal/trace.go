package journal

import "context"

type traceParentKey struct{}

// WithTraceParent returns a context in which Append records a W3C traceparent next to the entry, if
// the store supports that.
func WithTraceParent(ctx context.Context, traceParent string) context.Context {
	if traceParent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceParentKey{}, traceParent)
}

// TraceParent returns the traceparent of WithTraceParent, or "".
func TraceParent(ctx context.Context) string {
	s, _ := ctx.Value(traceParentKey{}).(string)
	return s
}

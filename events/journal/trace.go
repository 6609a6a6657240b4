package journal

import "context"

type traceParentKey struct{}

// WithTraceParent returns a context under which Append marks what it writes with
// a W3C traceparent, where the store has room for one beside the entry.
func WithTraceParent(ctx context.Context, traceParent string) context.Context {
	if traceParent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceParentKey{}, traceParent)
}

// TraceParent returns what WithTraceParent put into ctx, or "".
func TraceParent(ctx context.Context) string {
	s, _ := ctx.Value(traceParentKey{}).(string)
	return s
}

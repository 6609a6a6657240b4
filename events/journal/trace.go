package journal

import "context"

type traceParentKey struct{}

// maxTraceParent is far longer than a traceparent of W3C's version 00, which has 55 bytes.
const maxTraceParent = 256

// WithTraceParent returns a context in which Append records a W3C traceparent next to the entry, if
// the store supports that. It ignores one that is too long: clients choose it, and an entry whose
// headers exceed what a server accepts could never be written.
func WithTraceParent(ctx context.Context, traceParent string) context.Context {
	if traceParent == "" || len(traceParent) > maxTraceParent {
		return ctx
	}
	return context.WithValue(ctx, traceParentKey{}, traceParent)
}

// TraceParent returns the traceparent of WithTraceParent, or "".
func TraceParent(ctx context.Context) string {
	s, _ := ctx.Value(traceParentKey{}).(string)
	return s
}

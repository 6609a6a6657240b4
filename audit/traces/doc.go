// Package traces projects journals onto OpenTelemetry traces.
//
// A journal already records when everything began and ended, so any reader can make spans from it at any time. No
// process that runs a session makes spans or waits for their export. The ID of a span is a digest of what it is
// about, so a span that is exported again is the same span.
//
// A turn belongs to the trace of the command that started it if the sender was traced, and otherwise has its own
// trace. It has a span "invoke_agent", with a child span "chat" for each attempt at a model call and a child span
// "execute_tool" for each attempt at a tool call. A span is yielded when it ends, so a parent comes after its children.
//
// A span does not include the wait for an approval: when a turn waits, its span ends, and the decision begins another
// span, which links to it. The first span of a turn links to the previous turn, and to the commands that joined.
//
// A [Tracer] gets the entries of all sessions in the order in which they were stored, and remembers only what is open
// in the latest sessions. When another session continues, its journal is read again. A Tracer reads no clock and
// starts no goroutines. It is not safe for concurrent use.
package traces

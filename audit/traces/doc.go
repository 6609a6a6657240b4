// Package traces projects journals onto OpenTelemetry traces.
//
// The one idea: a journal already records when everything began and ended, so its spans can be made from it by any
// reader, at any time. Nothing that runs a session makes spans or waits for their export. IDs of spans are digests of
// what they are about, so a span that is exported again is the same span.
//
// A turn has a trace: that of the command that started it, if its sender was traced, else one of its own. It has a
// span "invoke_agent", below it a span "chat" for each attempt at a model call and a span "execute_tool" for each
// attempt at a tool call. A span is yielded when it ends, so a parent comes after its children.
//
// A span never lasts through a question: when a turn waits for an approval, its span ends, and the decision begins
// another one, which links to it. The first span of a turn links to the turn before, and to the commands that joined.
//
// A [Tracer] gets the entries of all sessions in the order in which they were stored, and remembers only what is open
// in those that it saw last. When another session continues, its journal is read again. A Tracer reads no clock and
// starts no goroutines. It is not safe for concurrent use.
package traces

// Package agui implements AG-UI 1.0 for sessions.
//
// A thread is a session, and a run is a part of one of its turns: a projection of the session's stream. The IDs of
// messages, calls and interrupts follow from their places in the journal. A run that has to ask ends with one
// interrupt for each question. The run that resumes it is the part that begins with the decisions. The protocol
// cannot continue a stream, so a client that comes back starts a run without input: it gets snapshots of what the
// journal has, and then everything that follows.
//
// A [Run] yields the events of a run; it is owned by one goroutine. [Parse] reads what clients send. Clients send all
// messages again each time; only the last one counts.
package agui

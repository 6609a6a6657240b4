// Package agui speaks AG-UI 1.0 about sessions.
//
// The one idea: a thread is a session, and a run is a part of one of its turns, as a projection of the stream of the
// session. The IDs of messages, calls and interrupts follow from their places in the journal. A run that has to ask
// ends with an interrupt for each question, and the run that resumes it is the part that begins with the decisions.
// The protocol cannot continue a stream, so a client that comes back starts a run without news: it gets snapshots of
// what the journal has, then what follows.
//
// A [Run] yields the events of a run; it is owned by one goroutine. [Parse] reads what clients send. Clients send all
// messages again each time; of those only the last one counts.
package agui

// Package uistream implements the UI message stream of the AI SDK, version 1, for sessions.
//
// A turn is one message of the assistant, and its chunks are a projection of the stream of its session. The IDs of the
// message, the parts of its text, calls and questions follow from their places in the journal, so a client that reads
// the message again gets the same IDs. A question ends the response. The decision begins another response, which
// continues the message.
//
// A [Stream] yields the chunks of a turn, a [History] the messages of a session; each is owned by one goroutine.
// [Parse] reads what clients send. Clients send all messages again each time; only the last one counts, as input or
// for its decisions.
package uistream

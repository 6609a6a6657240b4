// Package uistream speaks the UI message stream of the AI SDK, version 1, about sessions.
//
// The one idea: a turn is one message of the assistant, and its chunks are a projection of the stream of its session.
// Everything that has an ID in the protocol, the message, the parts of its text, calls and questions, has one that
// follows from its place in the journal, so a client that reads the message again gets the same one. A question ends
// the response, and the decision begins another one, which continues the message.
//
// A [Stream] yields the chunks of a turn, a [History] the messages of a session; each is owned by one goroutine.
// [Parse] reads what clients send. Clients send all messages again each time; of those only the last one counts, as
// input or with its decisions.
package uistream

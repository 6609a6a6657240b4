// Package openai implements OpenAI's protocols for sessions: Responses and Chat Completions.
//
// A response is a projection of the stream of its session. Its ID names the session, the turn, and the part of the
// turn: a question to a person ends a part, and the decision begins the next one. Sequence numbers follow from the
// place of an event in the stream (package gateway/internal/stream), not from counting. So they are the same for every
// reader, at every gateway, whenever it joins, and however the reply was cut into pieces. They rise, with gaps.
//
// [Responses] and [Chat] are state machines, each owned by one goroutine. [ParseResponse] and [ParseChat] read
// requests. They refuse unsupported fields that would change the meaning of a request.
package openai

// Package openai speaks OpenAI's protocols about sessions: Responses and Chat Completions.
//
// The one idea: a response is a projection of the stream of its session. Its ID names the session, the turn, and the
// part of the turn: a question to a person ends a part, and the decision begins the next one. Sequence numbers follow
// from the place of an event in the stream (package gateway/internal/stream), not from counting, so they are the same
// for every reader, at every gateway, whenever it joins, and however the reply was cut. They rise, with gaps.
//
// [Responses] and [Chat] are state machines, each owned by one goroutine. [ParseResponse] and [ParseChat] read
// requests, and refuse what would change the meaning of a request and is not supported here.
package openai

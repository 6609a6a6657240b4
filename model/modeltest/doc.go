// Package modeltest is the conformance suite of models: [Run] tests a [model.Model].
// For code that calls models there is [Fake], a model from one function. For adapters
// there is [Server], which responds over HTTP with given bytes.
//
// The suite checks:
//
//   - name: the name is not empty and does not change.
//   - whole-reply: a reply has only Assistant items, no negative usage, and a finish
//     reason that replies may have: tool_call with calls, completed without.
//   - complete-calls: a call has a name and a JSON object as input.
//   - deltas-add-up: each part begins and is committed once, in the order of the
//     reply, and its deltas add up to the part. Only malformed arguments may differ.
//   - one-goroutine: deltas are emitted from the calling goroutine.
//   - prompt-cancel: when the context ends, a call returns its cause promptly and
//     emits no more deltas.
//   - typed-errors: a failure is a *model.Error with a known class and a message.
//   - cut-reply: a response that is cut off is a retryable failure.
//   - kept-secret: neither the model nor its failures contain the key, however they are
//     printed or encoded.
//   - borrowed-request: the call does not modify the request.
//   - concurrent-calls: concurrent calls do not affect each other.
//   - same-again: the same request gets the same reply, if the model promises that.
package modeltest

// Package modeltest holds what every model must do, as tests: [Run] puts a
// [model.Model] through them. For tests of code that calls models there is
// [Fake], a model made of one function. For adapters there is [Server], which
// answers over HTTP with chosen bytes.
//
// What is checked, by name:
//
//   - name: the name is not empty and stays the same.
//   - whole-reply: a reply has only Assistant items, usage is not negative, and
//     the finish reason is empty or one that replies may have; tool_call comes
//     with calls, and completed without.
//   - complete-calls: a call has a name, and its input is one JSON object.
//   - deltas-add-up: parts are begun, appended to and committed once each, in the
//     order of the reply, and what was appended is what the reply holds; only
//     arguments that are not JSON are held as something else.
//   - one-goroutine: deltas come from the goroutine that called.
//   - prompt-cancel: a call whose context ends returns soon, with its cause, and
//     sends no more deltas.
//   - typed-errors: a failure is a *model.Error with a known class and a message.
//   - cut-reply: an answer that breaks off is a failure that may be retried.
//   - kept-secret: the model's key is in no failure, and nowhere in what the model
//     and its failures are printed or encoded as.
//   - borrowed-request: the request is not written to.
//   - concurrent-calls: calls do not disturb each other.
//   - same-again: the same request gives the same reply, if the model promises
//     so.
package modeltest

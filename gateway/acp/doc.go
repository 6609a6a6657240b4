// Package acp serves sessions to editors over the Agent Client Protocol, version 1, on a pair of pipes.
//
// An editor is a reader of the journal, like any other. It sees a projection of the stream of a session
// (gateway/internal/stream), and what it sends becomes commands. So nothing is lost when an editor ends: the session
// continues without it, session/load shows everything again, and a question that is still open is asked again.
// Any number of editors may show one session.
//
// An [Agent] serves one connection and owns the sessions that are open on it. A thread is an open session: one
// goroutine follows its journal and sends updates. Prompts wait until that goroutine has shown the end of their turn.
// The projection is pure.
//
//   - The end of a prompt comes after all updates of its turn.
//   - A question is asked once per connection, and is withdrawn when another client decides it.
//   - A cancel ends the turns of the editor's prompts, including prompts that still wait, and the open turn.
//   - The end of the connection ends nothing else.
//
// Tools run where the session runs: an Agent asks the editor for no files and no terminals. It has no modes and no
// commands either, since a session has none.
//
// To test against it, connect the SDK's client side with two pipes, as editor_test.go does.
package acp

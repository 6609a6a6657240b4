// Package acp serves sessions to editors: the Agent Client Protocol, version 1, over a pair of pipes.
//
// The one idea: an editor is a reader of the journal, like any other. What it is shown is a projection of the stream of
// a session (gateway/internal/stream), and what it sends becomes commands. So nothing is lost with an editor: the
// session goes on without it, session/load shows everything again, and a question that is still open is asked again.
// Any number of editors may have one session.
//
// An [Agent] serves one connection and owns what it has open. A thread is a session that the editor has open: one
// goroutine follows its journal and sends updates; prompts wait until that goroutine has shown the end of their turn.
// The projection is pure.
//
//   - The end of a prompt comes after all updates of its turn.
//   - A question is asked once per connection, and is withdrawn when somebody else decides it.
//   - A cancel ends the turns of the editor's prompts, also of those that wait, and the turn that is open.
//   - The end of the connection ends nothing else.
//
// Tools run where the session runs: an Agent asks the editor for no files and no terminals. It has no modes and no
// commands either, since a session has none.
//
// To test against it, connect the SDK's client side with two pipes; tests/acp does.
package acp

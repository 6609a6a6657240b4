// Package client is the Go client of a running deployment: open a session, drive
// it with the same steps as in process, and follow it from anywhere in its
// journal.
//
// The one idea: a client owns nothing. It sends asks to the session's inbox, wakes
// whoever drives, and learns what became of them from the journal, where an
// accepted ask is the cause of an entry. A [Session] may be closed and attached
// again at any time, from any machine.
//
// [Session.Next] returns the steps of package agent. [Client.Follow] yields every
// entry once, in order, with the live deltas of replies between them. [Client.Tool]
// makes a tool of a session: a sub-agent, for a worker to offer.
package client

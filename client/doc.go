// Package client is the Go client of a running deployment: open a session, use it through
// package session as if it ran in this process, and follow it from anywhere in its journal.
//
// The one idea: a client owns nothing. It sends commands to the session's inbox, wakes the
// driver, and learns the outcome from the journal, where an accepted command is the cause of
// an entry. A session may be closed and attached again at any time, from any machine.
//
// [Client.Start] and [Client.Attach] return the session. [Client.Follow] yields every entry
// once, in order, with the live deltas of replies between them. [Client.Tool] makes a tool of
// a session: a sub-agent, for a worker to offer.
package client

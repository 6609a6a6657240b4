// Package session is what a user of Turnlog holds: one session, to talk to, step
// through and decide for.
//
// The one idea: a session is the same thing wherever it runs. Package agent runs one
// inside the caller's process, package client joins one in a deployment, and both
// return a [Session] over a small [Backend]. A program moves from one to the other by
// changing its constructor.
//
// There are three ways to drive a session, each a loop over the one before:
//
//   - [Session.Next] returns the next [Step]: an approval to decide, the end of a round
//     of tools, the end of a turn, or that input is awaited.
//   - [Session.Submit] hands in input and returns the [Turn] that takes it in, whichever
//     that is: the open one or a later one. [Turn.Next] steps through that turn alone.
//   - [Session.Run], [Session.RunText], [Session.Stream] and [Session.RunTask] carry such
//     a turn to its end, with approvals answered by Config.Approver.
//
// A Session keeps no state of its own that matters: what it shows is folded from the
// journal. What it remembers is which steps it has returned, so after a restart each
// undecided approval is returned once more, and a turn that ended before is not.
//
// Next, Turn.Next and the facades belong to one goroutine. Everything else is safe from any.
package session

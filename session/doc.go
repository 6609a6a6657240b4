// Package session is Turnlog's API for one session: submit input, step through turns, and
// decide approvals.
//
// A session is the same wherever it runs. Package agent runs one inside the caller's
// process, package client joins one in a deployment, and both return a [Session] over a
// small [Backend]. To move a program from one to the other, change its constructor.
//
// There are three ways to drive a session, each a loop over the one before:
//
//   - [Session.Next] returns the next [Step]: an approval to decide, the end of a round
//     of tools, the end of a turn, or a wait for input.
//   - [Session.Submit] submits input and returns the [Turn] that will accept it, which may
//     be the open one or a later one. [Turn.Next] steps through that turn only;
//     [Turn.Updates] yields everything that happens until its end.
//   - The facades [Session.Run], [Session.RunText], [Session.Stream] and [Session.RunTask] run such
//     a turn to its end. Config.Approver answers approvals.
//
// A Session shows state that is folded from the journal. Only the steps that it has returned are
// remembered in memory: after a restart, Next returns each undecided approval once more, but no
// turn that has ended.
//
// Next, Turn.Next and the facades belong to one goroutine. All other methods are safe for
// concurrent use.
package session

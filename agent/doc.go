// Package agent runs agents in your process: configure one, start a session, and
// drive it by hand with Next, or to the end with Run, Stream, Steps or RunTask.
//
// The one idea: [Driver.Next] carries the session on until it has something to
// say, one of four steps: [*Finished], [*ApprovalRequest] (which has to be
// decided), [*AwaitingInput] and [*AfterToolResult] (which may be ignored). The
// facades are loops over Next and nothing else.
//
// Every fact goes to a journal before it counts (in memory unless Config says
// otherwise), by the same core that a deployment runs (package loop): what holds
// here holds there, and a session can be started again on its journal after a
// crash, with nothing lost and no call answered twice.
//
// A Driver belongs to one goroutine, except where a method says otherwise. It starts
// effects only inside Next, so an idle Driver costs nothing but the calls that were
// sent to the background, whose outcomes are recorded as they come.
package agent

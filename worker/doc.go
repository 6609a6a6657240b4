// Package worker is the runtime of a tool worker: it claims tasks from one queue,
// runs their tools and reports the outcomes.
//
// The one idea: a claim is a lease, and everything that is done about a call is
// done under it. The lease is renewed at a third of its length for as long as the
// call runs and its report travels; a worker that dies, hangs or is cut off stops
// renewing, and the task comes to another one.
//
// The life of a claim:
//
//  1. It was canceled, or its deadline passed before a worker began it, or the tool is
//     unknown here: that is the report, and nothing runs.
//  2. It was delivered before, so an earlier worker was lost during the call. If the
//     task's effects allow it the tool runs again, three deliveries at most; else,
//     after these, and after its deadline, the loss is reported: a call that was begun may
//     have done anything, so it did not merely time out. The core decides what happens
//     to the call, never a worker.
//  3. The tool runs with its deadline. Its context ends with a cause: the deadline,
//     [tool.ErrCancelled], [ErrStopped] or [task.ErrGone].
//  4. The report is sent, with retries while the lease lasts, and only then is the task
//     removed from its queue. A crash between the two repeats the report,
//     which has no effect. A question for an approval goes the other way round,
//     for the reason that package task gives.
//
// When Run's context ends the worker claims nothing more, closes its queue and
// withdraws its offer.
// Running calls have the drain timeout to finish. Those that have not are stopped:
// a call whose effects allow a second run goes back to the queue, any other is
// reported as lost, since its effect is unknown. One that never began is reported as
// not run.
//
// Who owns what: a [Worker] belongs to the caller of Run, which waits for everything that
// it started except tools that do not return when their context ends; those are
// abandoned, as package tool describes. The queue is the worker's own from Run on,
// and closed when that returns; the sources of tools are the caller's.
//
// What it does not do: it keeps no state, retries no call by itself, and does not
// decide what a model is told of a lost call. To test tools under it, give it the
// queue of a [task.Memory], in a bubble of testing/synctest.
package worker

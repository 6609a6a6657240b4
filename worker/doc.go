// Package worker is the runtime of a tool worker: it claims tasks from one queue,
// runs their tools and reports the outcomes.
//
// A claim is a lease, and everything about a call happens under it. The lease is
// renewed at a third of its length while the call runs and its report is sent. A
// worker that dies, hangs or is disconnected stops renewing, and another worker gets
// the task.
//
// The life of a claim:
//
//  1. If the call was canceled, its deadline passed before a worker began it, or the
//     tool is unknown here, the worker reports that and runs nothing.
//  2. If the task was delivered before, an earlier worker was lost during the call.
//     If the task's effects allow it, the tool runs again, for at most three
//     deliveries. Otherwise, and after the deadline, the loss is reported: a call
//     that began may have had effects, so it did not merely time out. The core
//     decides what happens to the call, never a worker.
//  3. After the permission checks, a call that must not run twice is recorded as
//     begun. If it already was, the queue has forgotten a delivery, and the loss is
//     reported. The tool runs with its deadline. Its context ends with a cause: the
//     deadline, [tool.ErrCancelled], [ErrStopped] or [task.ErrGone].
//  4. The report is sent, with retries while the lease lasts. Then the task is removed
//     from its queue, which may take one more lease. A crash in between repeats the
//     report, which has no effect. A question is reported in the opposite order;
//     package task says why.
//
// When Run's context ends, the worker claims nothing more, closes its queue and offers
// no tools; it withdraws that offer after its last call. Running calls have the drain
// timeout to finish. The others are stopped: a call whose effects allow a second run
// returns to the queue, one that never began is reported as not run, and any other as
// lost.
//
// Run waits for everything that it started, except abandoned tools, which package
// tool describes. It closes the queue; the caller owns the sources of tools.
//
// A worker keeps no state and does not retry calls. To test it, use a queue of an
// embedded server; both work in a bubble of testing/synctest.
package worker

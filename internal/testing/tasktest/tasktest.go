// Package tasktest tests implementations of task queues against the contract of package task.
//
// [Run] runs each test in its own testing/synctest bubble and implementation, so that leases expire in
// virtual time. [RunLive] runs the same tests in parallel and in real time, for implementations that do
// not work in a bubble, such as a cluster. A lease that has to expire is then two seconds.
//
// In real time the machine may stall. So the tests wait long for expected events, but only briefly for
// events that must not happen. A test that was too slow to extend its own claim is inconclusive and runs
// again.
//
// The caller's open function makes an [Env] that lasts until the end of the test.
package tasktest

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

// Env is one implementation. In a bubble it starts empty. Otherwise tests may share one, since each has
// its own sessions and queues.
type Env struct {
	// Dispatcher is the driver's side.
	Dispatcher task.Dispatcher
	// Queue opens the worker's side of a queue for a new worker. The first call creates the queue.
	Queue func(t *testing.T, name string) task.Queue
	// Reports returns the reports of workers for a session so far, in order. Call, Wake and a
	// question's Ruling need not be preserved.
	Reports func(t *testing.T, s content.SessionID) []task.Report
}

// OpenFunc makes the implementation that a test runs against. Claims of its queues last for
// lease; 0 means the default.
type OpenFunc func(t *testing.T, lease time.Duration) Env

// Run runs all tests, each in its own bubble, in which it calls open.
func Run(t *testing.T, open OpenFunc) {
	for _, c := range contract() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.test(t, newBench(open(t, 0), "")) })
		})
	}
}

// RunLive runs all tests in real time, in parallel.
func RunLive(t *testing.T, open OpenFunc) {
	var tests sync.WaitGroup
	for i, c := range contract() {
		tests.Go(func() {
			t.Run(c.name, func(t *testing.T) { c.live(t, open, strconv.Itoa(i+1)) })
		})
	}
	tests.Wait()
}

type clause struct {
	name string
	test func(*testing.T, *bench)

	lapses bool // it waits for most of a lease or longer
}

// live runs a test until it is conclusive.
func (c clause) live(t *testing.T, open OpenFunc, mark string) {
	lease := longLease
	if c.lapses {
		lease = shortLease
	}
	for n := range maxTrials {
		b := newBench(open(t, lease), mark+"-"+strconv.Itoa(n+1))
		if c.test(t, b); !b.void {
			return
		}
		t.Log("the servers or the machine were too slow: running again")
	}
	t.Error("every run was too slow")
}

func contract() []clause {
	return []clause{
		{name: "TaskIsClaimedAsDispatched", test: arrives},
		{name: "TasksAreClaimedInOrder", test: inOrder},
		{name: "ClaimersGetDifferentTasks", test: differentTasks},
		{name: "WaitingClaimGetsTheNextTask", test: waitingClaim},
		{name: "QueuesAreSeparate", test: separate},
		{name: "PlaceIsUniqueWhileQueued", test: refusedWhileQueued},
		{name: "LaterAttemptReplacesAnEarlierOne", test: laterAttempt},
		{name: "EarlierAttemptIsNotALaterOne", test: earlierAttempt},
		{name: "ApprovedCallReplacesItsQuestion", test: approvedCall},
		{name: "DispatchesOfACallHaveAnOrder", test: ordered},
		{name: "QueuedUntilDone", test: queuedUntilDone},
		{name: "ClaimEndsWithItsContext", test: claimEnds},
		{name: "UnclaimedDeliveryDoesNotCount", test: claimerLeft},
		{name: "ClosedQueueEndsItsClaims", test: closedClaims},
		{name: "ClosedQueueLeavesTasksToOthers", test: closedLeaves},
		{name: "ClosedQueueKeepsItsClaims", test: closedHeld, lapses: true},
		{name: "TaskReturnsWhenItsLeaseExpires", test: lapses, lapses: true},
		{name: "ExtendedLeaseHolds", test: extended, lapses: true},
		{name: "ExpiredClaimIsGone", test: gone, lapses: true},
		{name: "ReleasedTaskIsClaimedAtOnce", test: released},
		{name: "ReportComesBeforeDone", test: reports},
		{name: "CallBeginsOnce", test: begins},
		{name: "LossIsReported", test: lost, lapses: true},
		{name: "QuestionIsReportedAfterDone", test: asked},
		{name: "CancelReachesTheClaim", test: cancelClaimed},
		{name: "CancelRemovesAPendingTask", test: cancelWaiting},
		{name: "CancelOfNothingIsHarmless", test: cancelNothing},
	}
}

func dispatch(t *testing.T, b *bench, tasks ...task.Task) {
	t.Helper()
	for _, x := range tasks {
		if err := b.Dispatcher.Dispatch(t.Context(), x); err != nil {
			t.Fatalf("Dispatch of %s/%s = %v", x.Session, x.Place, err)
		}
	}
}

// claim returns the next task of the queue, for which it waits longer than any lease.
func claim(t *testing.T, q task.Queue) task.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := q.Claim(ctx)
	if err != nil {
		t.Fatalf("Claim = %v, want a task", err)
	}
	return c
}

// claimNothing waits on the queue and fails if a task arrives.
func claimNothing(t *testing.T, q task.Queue, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if c, err := q.Claim(ctx); err == nil {
		t.Fatalf("Claim = %s/%s, want nothing", c.Task().Session, c.Task().Place)
	}
}

func wantQueued(t *testing.T, b *bench, x task.Task, want bool) {
	t.Helper()
	got, err := b.Dispatcher.Queued(t.Context(), x)
	if err != nil || got != want {
		t.Fatalf("Queued of %s/%s = %v, %v, want %v", x.Session, x.Place, got, err, want)
	}
}

// wantOff waits until x is not queued. In real time a leader may confirm a removal a little early.
func wantOff(t *testing.T, b *bench, x task.Task) {
	t.Helper()
	for end := time.Now().Add(promptEnough); b.live() && time.Now().Before(end); {
		queued, err := b.Dispatcher.Queued(t.Context(), x)
		if err == nil && !queued {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	wantQueued(t, b, x, false)
}

func wantTask(t *testing.T, c task.Claim, want task.Task, delivery int) {
	t.Helper()
	if diff := cmp.Diff(want, c.Task()); diff != "" {
		t.Fatalf("claimed another task (-want +got):\n%s", diff)
	}
	if c.Delivery() != delivery {
		t.Fatalf("Delivery = %d, want %d", c.Delivery(), delivery)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Package tasktest holds every implementation of task queues to the contract of
// package task.
//
// The one idea: [Run] is the contract, written as tests. Each test runs in a
// bubble of testing/synctest with an implementation of its own, so that leases of
// half a minute pass in virtual time.
//
// Who owns what: the caller's open function makes an [Env] inside the bubble and
// ends everything that it started by the end of the test. The suite claims and
// reports only as a worker may, and dispatches only as a driver may.
package tasktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/task"
)

// Queues are the names of the queues that the suite uses.
func Queues() []string { return []string{"tools", "other"} }

// Env is one implementation, empty.
type Env struct {
	// Dispatcher is the driver's side.
	Dispatcher task.Dispatcher
	// Queue opens the worker's side of a queue, once more with every call, as
	// another worker would.
	Queue func(t *testing.T, name string) task.Queue
	// Reports returns what workers have reported for a session so far, in order.
	// Call and Wake need not be kept: a place names the call. Nor need a gate's
	// Ruling: it asks.
	Reports func(t *testing.T, s content.SessionID) []task.Report
}

// Run runs the contract against what open makes. open is called in every test's
// own bubble.
func Run(t *testing.T, open func(t *testing.T) Env) {
	for _, c := range contract() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.test(t, open(t)) })
		})
	}
}

type clause struct {
	name string
	test func(*testing.T, Env)
}

func contract() []clause {
	return []clause{
		{"TaskArrivesAsItWasSent", arrives},
		{"TasksAreHandedOutInOrder", inOrder},
		{"ClaimersGetDifferentTasks", differentTasks},
		{"WaitingClaimGetsTheNextTask", waitingClaim},
		{"QueuesAreSeparate", separate},
		{"PlaceIsRefusedWhileItIsQueued", refusedWhileQueued},
		{"LaterAttemptReplacesAnEarlierOne", laterAttempt},
		{"EarlierAttemptIsNotTakenForALaterOne", earlierAttempt},
		{"ApprovedCallReplacesTheOneThatAsked", approvedCall},
		{"DispatchesOfACallHaveAnOrder", ordered},
		{"QueuedUntilDone", queuedUntilDone},
		{"ClaimEndsWithItsContext", claimEnds},
		{"TaskForAClaimerThatLeftCountsAsNew", claimerLeft},
		{"ClosedQueueEndsItsClaims", closedClaims},
		{"ClosedQueueLeavesTasksToOthers", closedLeaves},
		{"ClosedQueueKeepsWhatIsHeld", closedHeld},
		{"TaskComesBackWhenItsLeaseLapses", lapses},
		{"ExtendedLeaseHolds", extended},
		{"LapsedClaimIsGone", gone},
		{"ReleasedTaskIsHandedOutAtOnce", released},
		{"ReportComesBeforeDone", reports},
		{"LossIsReported", lost},
		{"QuestionIsReportedBehindDone", asked},
		{"CancelReachesTheClaim", cancelClaimed},
		{"CancelTakesAWaitingTaskAway", cancelWaiting},
		{"CancelOfNothingIsHarmless", cancelNothing},
	}
}

// newTask returns a task of session s with every field set.
func newTask(s content.SessionID, p content.Place) task.Task {
	return task.Task{
		Session: s, Turn: "turn-1", Call: "call-" + content.CallID(p), Place: p, Attempt: 1,
		Queue: "tools", Tool: "echo", Input: []byte(`{"text":"hello"}`), Effects: content.Idempotent, Approved: []content.GateKey{{Kind: "echo"}},
		Deadline:       content.TimeOf(time.Now().Add(time.Hour)),
		IdempotencyKey: string(s) + "/" + string(p), TraceParent: "00-trace-span-01",
	}
}

func dispatch(t *testing.T, e Env, tasks ...task.Task) {
	t.Helper()
	for _, x := range tasks {
		if err := e.Dispatcher.Dispatch(t.Context(), x); err != nil {
			t.Fatalf("Dispatch of %s/%s = %v", x.Session, x.Place, err)
		}
	}
}

// claim returns the next task of the queue, which has to come within five
// minutes: longer than any lease.
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

// claimNothing waits on the queue and fails if a task comes.
func claimNothing(t *testing.T, q task.Queue, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if c, err := q.Claim(ctx); err == nil {
		t.Fatalf("Claim handed out %s/%s, want nothing", c.Task().Session, c.Task().Place)
	}
}

func wantQueued(t *testing.T, e Env, x task.Task, want bool) {
	t.Helper()
	got, err := e.Dispatcher.Queued(t.Context(), x)
	if err != nil || got != want {
		t.Fatalf("Queued of %s/%s = %v, %v, want %v", x.Session, x.Place, got, err, want)
	}
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

package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/tasktest"
	"github.com/turnlog/turnlog/worker/task"
)

// ledger records reports. A bubble's tests use it from one goroutine at a time.
type ledger struct {
	reports []task.Report
}

func (l *ledger) add(_ context.Context, r task.Report) error {
	l.reports = append(l.reports, r)
	return nil
}

func (l *ledger) of(_ *testing.T, s content.SessionID) []task.Report {
	var out []task.Report
	for _, r := range l.reports {
		if r.Session == s {
			out = append(out, r)
		}
	}
	return out
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	tasktest.Run(t, func(_ *testing.T, lease time.Duration) tasktest.Env {
		var l ledger
		m := task.NewMemory(lease, l.add)
		return tasktest.Env{
			Dispatcher: m,
			Queue:      func(_ *testing.T, name string) task.Queue { return m.Queue(name) },
			Reports:    l.of,
		}
	})
}

func TestDispatchWithAnEndedContextDoesNothing(t *testing.T) {
	t.Parallel()
	var l ledger
	m := task.NewMemory(0, l.add)
	why := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	x := task.Task{Session: "s1", Place: "t1-r1-c1", Queue: "tools"}
	if err := m.Dispatch(ctx, x); !errors.Is(err, why) {
		t.Errorf("Dispatch = %v, want the cause", err)
	}
	if queued, err := m.Queued(t.Context(), x); queued || err != nil {
		t.Errorf("Queued = %v, %v, want nothing", queued, err)
	}
}

func TestCancelledTaskLeavesTheQueueWithItsHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		m := task.NewMemory(time.Minute, l.add)
		x := task.Task{Session: "s1", Place: "t1-r1-c1", Queue: "tools"}
		if err := m.Dispatch(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		c, err := m.Queue("tools").Claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"first", "second"} {
			if err := m.Cancel(t.Context(), "tools", x.Session, x.Place, reason); err != nil {
				t.Fatal(err)
			}
		}
		if c.CancelReason() != "first" {
			t.Errorf("CancelReason = %q, want the first", c.CancelReason())
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if queued, err := m.Queued(t.Context(), x); queued || err != nil {
			t.Errorf("Queued after the lease = %v, %v, want nothing left to run", queued, err)
		}
	})
}

func TestReportThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	m := task.NewMemory(time.Minute, func(context.Context, task.Report) error { return full })
	if err := m.Dispatch(t.Context(), task.Task{Session: "s1", Place: "t1-r1-c1", Queue: "tools"}); err != nil {
		t.Fatal(err)
	}
	c, err := m.Queue("tools").Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Report(t.Context(), task.Report{Session: "s1", Place: "t1-r1-c1"}); !errors.Is(err, full) {
		t.Errorf("Report = %v, want the reason", err)
	}
	if err := c.Done(t.Context()); err != nil {
		t.Errorf("Done = %v", err)
	}
}

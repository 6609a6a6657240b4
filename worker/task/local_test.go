package task_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// ran is what Local.Run returned.
type ran struct {
	report task.Report
	err    error
}

// running begins a call on a queue, and returns its claim and where its end arrives.
func running(ctx context.Context, t *testing.T, l *task.Local, x task.Task) (task.Claim, <-chan ran) {
	t.Helper()
	ended := make(chan ran, 1)
	go func() {
		r, err := l.Run(ctx, x)
		ended <- ran{r, err}
	}()
	c, err := l.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c, ended
}

func TestALocalCallEndsWithItsFirstReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := task.NewLocal()
		large := make([]byte, 1<<20) // it waits for memory
		c, ended := running(t.Context(), t, l, task.Task{Place: "t1-r1-c1", Queue: l.Name(), Input: large})
		if c.Task().Place != "t1-r1-c1" || c.Delivery() != 1 || c.Lease() <= 0 {
			t.Errorf("claim of %s, delivery %d, lease %v", c.Task().Place, c.Delivery(), c.Lease())
		}
		if err := errors.Join(c.Begin(t.Context()), c.Extend(t.Context()), c.Unbegin(t.Context())); err != nil {
			t.Error(err)
		}
		for _, reason := range []string{"first", "second"} {
			if err := c.Report(t.Context(), task.Report{Reason: reason}); err != nil {
				t.Error(err)
			}
		}
		if err := c.Done(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-ended; got.err != nil || got.report.Reason != "first" {
			t.Errorf("Run = %+v, %v", got.report, got.err)
		}
	})
}

func TestALocalCallThatIsReleasedIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, ended := running(t.Context(), t, task.NewLocal(), task.Task{})
		if err := c.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-ended; !errors.Is(got.err, task.ErrClosed) {
			t.Errorf("Run = %v, want ErrClosed", got.err)
		}
	})
}

// A call may be canceled before its worker says how to stop it, and after.
func TestACanceledLocalCallStops(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before it says how": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				c, ended := running(ctx, t, task.NewLocal(), task.Task{})
				stop := func() {
					cancel(errors.New("the turn ended"))
					synctest.Wait()
				}
				var reasons []string
				if before {
					stop()
				}
				c.OnCancel(func(reason string) { reasons = append(reasons, reason) })
				if !before {
					stop()
				}
				if !slices.Equal(reasons, []string{"the turn ended"}) {
					t.Errorf("reasons: %q", reasons)
				}
				if err := c.Report(t.Context(), task.Report{Reason: "stopped"}); err != nil {
					t.Error(err)
				}
				if got := <-ended; got.err != nil || got.report.Reason != "stopped" {
					t.Errorf("Run = %+v, %v", got.report, got.err)
				}
			})
		})
	}
}

func TestAClosedLocalQueueTakesAndGivesNothing(t *testing.T) {
	t.Parallel()
	l := task.NewLocal()
	over, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("over")
	cancel(cause)
	large := task.Task{Input: make([]byte, 1<<20)}
	if _, err := l.Run(over, task.Task{}); !errors.Is(err, cause) {
		t.Errorf("Run = %v", err)
	}
	if _, err := l.Run(over, large); !errors.Is(err, cause) {
		t.Errorf("Run of a large task = %v", err)
	}
	if _, err := l.Claim(over); !errors.Is(err, cause) {
		t.Errorf("Claim = %v", err)
	}
	for range 2 {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Run(t.Context(), task.Task{}); !errors.Is(err, task.ErrClosed) {
		t.Errorf("Run of a closed queue = %v", err)
	}
	if _, err := l.Claim(t.Context()); !errors.Is(err, task.ErrClosed) {
		t.Errorf("Claim of a closed queue = %v", err)
	}
}

func TestALocalQueueOffersWhatItsWorkerAdvertisedLast(t *testing.T) {
	t.Parallel()
	l := task.NewLocal()
	for _, specs := range [][]tool.Spec{{{Name: "a", Effects: content.ReadOnly}}, {{Name: "a"}, {Name: "b"}}} {
		if err := l.Advertise(t.Context(), task.Offer{Tools: specs}); err != nil {
			t.Fatal(err)
		}
		if got := l.Offered(); len(got) != len(specs) {
			t.Errorf("offered: %+v", got)
		}
	}
	<-l.Ready()
	<-l.Changed()
	if err := l.Withdraw(t.Context()); err != nil || l.Offered() != nil {
		t.Errorf("after Withdraw: %+v, %v", l.Offered(), err)
	}
}

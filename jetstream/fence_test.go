package jetstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/task"
)

// TestATaskOfAReplacedDriverIsNotRunTwice publishes a call's task as a driver does whose
// network held it back: its successor has published the same, and that was run.
func TestATaskOfAReplacedDriverIsNotRunTwice(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		effects  content.Effects
		decided  time.Duration // before it is stored
		epoch    uint64
		fence    uint64 // 0: none
		admitted bool
	}{
		"late, behind a fence":               {content.Once, 6 * time.Second, 1, 2, false},
		"late, by a clock that is ahead":     {content.Once, -6 * time.Second, 1, 2, false},
		"late, by the driver with the fence": {content.Once, 6 * time.Second, 2, 2, true},
		"late, and no fence":                 {content.Once, 6 * time.Second, 1, 0, true},
		"in time: it was there before":       {content.Once, 10 * time.Millisecond, 1, 2, true},
		"late, and it may run twice":         {content.Idempotent, 6 * time.Second, 1, 2, true},
		"of a release that knew no epochs":   {content.Once, 6 * time.Second, 0, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCell(t, QueueConfig{Name: "tools"})
				q := worker(t, c.nc)
				task1 := shellTask("t1-r1-c1")
				task1.Effects, task1.Epoch, task1.Decided = x.effects, x.epoch, content.TimeOf(time.Now().Add(-x.decided))
				if x.fence > 0 {
					must(t, c.Tasks().Fence(t.Context(), task1.Session, x.fence))
				}
				must(t, c.Tasks().Dispatch(t.Context(), task1))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				got, err := q.Claim(ctx)
				switch {
				case x.admitted && err != nil:
					t.Fatalf("Claim = %v, want the task", err)
				case x.admitted:
					must(t, got.Done(t.Context()))
				case !errors.Is(err, context.DeadlineExceeded):
					t.Fatalf("Claim = %v, %v, want nothing", got, err)
				}
				if queued, err := c.Tasks().Queued(t.Context(), task1); queued || err != nil {
					t.Errorf("it is still on its queue: %v, %v", queued, err)
				}
				must(t, q.Close(t.Context()))
			})
		})
	}
}

// TestATaskThatWasBegunIsNotDropped: its worker died, and then its driver too. That it
// was handed out must come out, or its next driver would have it run again.
func TestATaskThatWasBegunIsNotDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		q := worker(t, c.nc)
		x := shellTask("t1-r1-c1")
		x.Epoch, x.Decided = 1, content.TimeOf(time.Now().Add(-time.Second))
		must(t, c.Tasks().Dispatch(t.Context(), x))
		if first := claimTask(t, q, time.Second); first.Delivery() != 1 {
			t.Fatalf("delivery = %d", first.Delivery())
		}
		must(t, c.Tasks().Fence(t.Context(), x.Session, 2))
		again := claimTask(t, q, time.Minute)
		if again.Delivery() != 2 {
			t.Errorf("delivery = %d, want 2", again.Delivery())
		}
		must(t, again.Done(t.Context()))
		must(t, q.Close(t.Context()))
	})
}

// TestATaskThatWasFoundIsLetThrough: the next driver relies on it, and may have let the
// session go.
func TestATaskThatWasFoundIsLetThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		found, after := shellTask("t1-r1-c1"), shellTask("t1-r1-c2")
		for _, x := range []*task.Task{&found, &after} {
			x.Epoch, x.Decided = 1, content.TimeOf(time.Now().Add(-time.Second))
		}
		must(t, c.Tasks().Dispatch(t.Context(), found))
		must(t, c.Tasks().Fence(t.Context(), found.Session, 2))
		place, queued, err := c.Tasks().Find(t.Context(), found)
		if !queued || err != nil {
			t.Fatalf("Find = %v, %v", queued, err)
		}
		must(t, c.Tasks().Fence(t.Context(), found.Session, 2, place))
		must(t, c.Tasks().Dispatch(t.Context(), after))
		q := worker(t, c.nc)
		got := claimTask(t, q, time.Minute)
		if got.Task().Place != found.Place {
			t.Errorf("claimed %s, want what was found", got.Task().Place)
		}
		must(t, got.Done(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := q.Claim(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Claim = %v, %v, want nothing", got, err)
		}
		if _, woken, err := c.TokenOf(t.Context(), found.Session); !woken || err != nil {
			t.Errorf("the session of what was dropped has a token: %v, %v", woken, err)
		}
		must(t, q.Close(t.Context()))
	})
}

func TestAFenceNeverMovesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		for _, x := range []struct{ put, want uint64 }{{3, 3}, {2, 3}, {4, 4}, {4, 4}} {
			must(t, c.Tasks().Fence(t.Context(), "s1", x.put))
			got, at, err := c.fenceOf(t.Context(), "s1")
			if got.Epoch != x.want || err != nil {
				t.Errorf("behind %d the fence is %v, %v, want %d", x.put, got, err, x.want)
			}
			if at == 0 {
				t.Error("the fence has no place")
			}
		}
		<-time.After(2 * fenceTTL)
		must(t, c.Tasks().Fence(t.Context(), "s1", 1))
		if got, _, err := c.fenceOf(t.Context(), "s1"); got.Epoch != 1 || err != nil {
			t.Errorf("behind one that expired the fence is %v, %v", got, err)
		}
	})
}

// TestWhatIsDroppedCanBePublishedAgain: a dropped task may be one that has to run after
// all, which its driver finds out and publishes under its own epoch.
func TestWhatIsDroppedCanBePublishedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, QueueConfig{Name: "tools"})
		q := worker(t, c.nc)
		old := shellTask("t1-r1-c1")
		old.Epoch, old.Decided = 1, content.TimeOf(time.Now().Add(-time.Minute))
		must(t, c.Tasks().Fence(t.Context(), old.Session, 2))
		must(t, c.Tasks().Dispatch(t.Context(), old))
		claimed := make(chan task.Claim)
		go func() {
			got, err := q.Claim(t.Context())
			if err != nil {
				t.Error(err)
			}
			claimed <- got
		}()
		synctest.Wait()
		again := old
		again.Epoch = 2
		must(t, c.Tasks().Dispatch(t.Context(), again))
		got := <-claimed
		if got.Task().Epoch != 2 || got.Delivery() != 1 {
			t.Errorf("claimed the task of epoch %d, delivery %d", got.Task().Epoch, got.Delivery())
		}
		must(t, got.Done(t.Context()))
		must(t, q.Close(t.Context()))
	})
}

package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/loop"
)

func recall(task string) loop.Effect { return loop.Recall{Task: task} }

// hosted is a performer whose effects wait until they are released or stopped.
type hosted struct {
	*engine.Performer
	release chan struct{}

	mu      sync.Mutex
	started []string
	stopped []error
}

func host(ctx context.Context) *hosted {
	h := &hosted{release: make(chan struct{})}
	h.Performer = engine.NewPerformer(ctx, func(ctx context.Context, e loop.Effect, _ *engine.View) commands.Command {
		h.note(func() { h.started = append(h.started, e.Identity()) })
		select {
		case <-h.release:
			return commands.ReportRecall{}
		case <-ctx.Done():
			h.note(func() { h.stopped = append(h.stopped, context.Cause(ctx)) })
			return nil
		}
	}, nil, nil)
	return h
}

func (h *hosted) note(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func synced(t *testing.T, p *engine.Performer, owed []loop.Effect) {
	t.Helper()
	if err := p.Sync(owed, func() (*engine.View, error) { return &engine.View{}, nil }); err != nil {
		t.Fatal(err)
	}
}

func TestNothingStartsUntilTheHostIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, asked, no := host(t.Context()), 0, errors.New("no lease")
		ready := func() (*engine.View, error) { asked++; return &engine.View{}, no }
		owed := []loop.Effect{recall("a"), recall("b")}
		if err := h.Sync(owed, ready); !errors.Is(err, no) || asked != 1 {
			t.Errorf("Sync = %v, asked %d times", err, asked)
		}
		synctest.Wait()
		if len(h.started) != 0 {
			t.Errorf("%v started", h.started)
		}
		no = nil
		for range 2 {
			if err := h.Sync(owed, ready); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if asked != 2 || len(h.started) != 2 {
			t.Errorf("asked %d times, started %v: once before both is enough", asked, h.started)
		}
		h.Cancel(engine.ErrStop)
	})
}

func TestAnOwedEffectStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t.Context())
		synced(t, h.Performer, []loop.Effect{recall("a")})
		synctest.Wait()
		synced(t, h.Performer, []loop.Effect{recall("a")})
		synctest.Wait()
		if len(h.started) != 1 {
			t.Errorf("started %v, want one", h.started)
		}
		close(h.release)
		if r := <-h.Reports(); r.Cause != "recall/a" {
			t.Errorf("report of %q", r.Cause)
		}
		synced(t, h.Performer, []loop.Effect{recall("a")})
		synctest.Wait()
		if len(h.started) != 1 {
			t.Errorf("a finished effect that is still owed was started again: %v", h.started)
		}
	})
}

func TestAnEffectThatIsNoLongerOwedIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t.Context())
		synced(t, h.Performer, []loop.Effect{recall("a"), recall("b")})
		synctest.Wait()
		synced(t, h.Performer, []loop.Effect{recall("b")})
		synctest.Wait()
		if len(h.stopped) != 1 || !errors.Is(h.stopped[0], engine.ErrStop) {
			t.Errorf("stopped with %v, want ErrStop once", h.stopped)
		}
		h.Cancel(context.Canceled)
	})
}

func TestAStoppedEffectMayStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t.Context())
		cause := errors.New("host gives up")
		synced(t, h.Performer, []loop.Effect{recall("a"), recall("b")})
		synctest.Wait()
		h.Stop(cause, func(id string) bool { return id == "recall/b" })
		if len(h.stopped) != 1 || !errors.Is(h.stopped[0], cause) {
			t.Errorf("stopped with %v", h.stopped)
		}
		synced(t, h.Performer, []loop.Effect{recall("a"), recall("b")})
		synctest.Wait()
		if len(h.started) != 3 {
			t.Errorf("started %v, want a twice and b once", h.started)
		}
		h.Cancel(cause)
	})
}

func TestEffectsStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := engine.NewPerformer(t.Context(), func(ctx context.Context, _ loop.Effect, _ *engine.View) commands.Command {
			<-ctx.Done()
			<-time.After(time.Second) // of the bubble's clock
			return nil
		}, nil, nil)
		synced(t, p, []loop.Effect{recall("a"), recall("b"), recall("c")})
		began := time.Now()
		p.Stop(engine.ErrStop, nil)
		if took := time.Since(began); took != time.Second {
			t.Errorf("Stop took %v, want as long as its slowest effect", took)
		}
		p.Cancel(engine.ErrStop)
	})
}

func TestAnEffectOfThisHostReportsItsOwnStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, stop := loop.CallModel{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}}, loop.StopModel{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}}
		here, elsewhere := host(t.Context()), host(t.Context())
		synced(t, here.Performer, []loop.Effect{call})
		synced(t, here.Performer, []loop.Effect{stop})
		synced(t, elsewhere.Performer, []loop.Effect{stop})
		synctest.Wait()
		if diff := cmp.Diff([]string{call.Identity()}, here.started); diff != "" || len(here.stopped) != 1 || !errors.Is(here.stopped[0], engine.ErrStop) {
			t.Errorf("the host that began the call stopped %v (-want +got)\n%s", here.stopped, diff)
		}
		if diff := cmp.Diff([]string{stop.Identity()}, elsewhere.started); diff != "" {
			t.Errorf("another host (-want +got)\n%s", diff)
		}
		elsewhere.Cancel(errors.New("over"))
		synctest.Wait()
	})
}

func TestATimerIsReportedWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := func(e loop.ArmTimer) time.Time { return e.At.Std().Add(time.Minute) }
		p := engine.NewPerformer(t.Context(), func(context.Context, loop.Effect, *engine.View) commands.Command {
			t.Error("a timer is performed")
			return nil
		}, due, nil)
		began := time.Now()
		timer := loop.ArmTimer{Kind: commands.TimerDeadline, ID: "t1/r1/c1", At: content.TimeOf(began.Add(time.Hour))}
		other := timer
		other.ID = "t1/r1/c2"
		synced(t, p, []loop.Effect{timer, other})
		synced(t, p, []loop.Effect{timer})
		want := engine.Report{Cause: timer.Identity(), Command: commands.ReportTimer{Kind: timer.Kind, ID: timer.ID}}
		if got := <-p.Reports(); got != want || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("after %v: %+v, want %+v", time.Since(began), got, want)
		}
		synctest.Wait()
		if !p.Done(timer.Identity()) || p.Has(other.Identity()) {
			t.Error("the reported timer is not done, or the other one is known")
		}
		p.Forget(timer.Identity())
		timer.At = content.TimeOf(time.Now().Add(-time.Hour)) // overdue
		synced(t, p, []loop.Effect{timer})
		synctest.Wait()
		if stopped := p.Stop(engine.ErrStop, nil); len(stopped) != 1 {
			t.Errorf("stopped %v", stopped)
		}
		select {
		case r := <-p.Reports():
			t.Errorf("a stopped timer is reported: %+v", r)
		case <-time.After(2 * time.Hour):
		}
	})
}

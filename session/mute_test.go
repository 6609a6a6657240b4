package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/tool"
)

// mute is a backend whose driver fails after it has accepted this many cancels.
type mute struct {
	*fake

	takes int
}

func (m *mute) Ask(ctx context.Context, id string, c commands.Command) error {
	if _, ok := c.(commands.Cancel); ok {
		if m.takes == 0 {
			<-ctx.Done()
			return ErrNoAnswer
		}
		m.takes--
	}
	return m.fake.Ask(ctx, id, c)
}

// The model of the fake never stops, so that only the driver could end the turn.
func TestAWaitEndsWhenTheDriverDiesThatTookTheCancel(t *testing.T) {
	for name, before := range map[string]bool{"the turn was cancelled before": true, "the wait cancels it": false} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := newFake(t, false)
			s := New(&mute{f, 1}, Config{})
			turn := submit(t, s, "go", Steer)
			if before {
				if err := s.Cancel(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			defer time.AfterFunc(time.Hour, turn.Close).Stop()
			if _, err := turn.Wait(ctx); !errors.Is(err, ErrNoAnswer) {
				t.Errorf("%s: Wait = %v", name, err)
			}
		})
	}
}

func TestACallThatIsOverDoesNotWaitForADriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFake(t, false)
		s := New(&mute{fake: f}, Config{})
		submit(t, s, "go", Steer)
		ctx, stop := context.WithCancelCause(t.Context())
		stop(engine.ErrStop)
		patience, leave := withGrace(ctx)
		defer leave()
		if _, err := (&child{Session: s, call: tool.Call{Session: "p", Place: "t1-r1-c1"}}).serve(ctx, patience); err == nil {
			t.Error("serve = nil")
		}
	})
}

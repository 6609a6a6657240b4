package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/tool"
)

// mute is a backend whose driver takes no cancel.
type mute struct{ *fake }

func (m mute) Ask(ctx context.Context, id string, c commands.Command) error {
	if _, ok := c.(commands.Cancel); ok {
		<-ctx.Done()
		return ErrNoAnswer
	}
	return m.fake.Ask(ctx, id, c)
}

func TestACallThatIsOverDoesNotWaitForADriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFake(t, false)
		s := New(mute{f}, Config{})
		submit(t, s, "go", Steer)
		ctx, stop := context.WithCancelCause(t.Context())
		stop(engine.ErrStop)
		if _, err := (&child{Session: s, call: tool.Call{Session: "p", Place: "t1-r1-c1"}}).serve(ctx); err == nil {
			t.Error("serve = nil")
		}
	})
}

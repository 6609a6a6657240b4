package actor_test

import (
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/actor"
)

// TestWhatANodeTookJustBeforeItDiedIsHandedOn: nothing waits for a lease that the others
// can know of.
func TestWhatANodeTookJustBeforeItDiedIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		<-time.After(time.Second) // its first record is written
		w.thinking("s")
		second := w.node("n2")
		<-time.After(50 * time.Millisecond)
		first.Crash(t)
		<-time.After(3 * time.Second)
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v 3 s after the crash", got)
		}
		second.Drain(t)
	})
}

// TestANodeThatWasTakenForDeadRecordsItsTokensAgain: it was only cut off for a while.
// The next time it may really die.
func TestANodeThatWasTakenForDeadRecordsItsTokensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.thinking("s")
		<-time.After(time.Second)
		if err := w.Cell.Nodes().Forget(w.Ctx, "n1"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		if got, err := w.Cell.Nodes().List(w.Ctx); err != nil || len(got) != 1 || len(got[0].Held) != 1 {
			t.Errorf("records = %+v, %v, want its own with the token", got, err)
		}
		n.Drain(t)
	})
}

// TestADriverThatCannotReadReturnsItsToken: no other node has it, so there is no lease to
// wait for. The stream of commands is gone for a while.
func TestADriverThatCannotReadReturnsItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex // guards left
		var left []time.Time
		n := w.node("n1", func(c *actor.Config) {
			c.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "m"}), zapcore.AddSync(io.Discard), zap.ErrorLevel),
				zap.Hooks(func(e zapcore.Entry) error {
					mu.Lock()
					defer mu.Unlock()
					if e.Message == "session cannot be driven" {
						left = append(left, time.Now())
					}
					return nil
				}))
		})
		w.thinking("s")
		if _, err := w.Connect().RequestWithContext(w.Ctx, "$JS.API.STREAM.DELETE.TURNLOG_INBOX", nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(left) < 12 {
			t.Errorf("left %d times in a minute, want it tried again and again: %v", len(left), left)
		}
		n.Drain(t)
	})
}

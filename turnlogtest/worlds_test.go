package turnlogtest_test

import (
	"flag"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

var worlds = flag.Int("worlds", 20, "deployments of each kind that TestWorldsLeaveNothing starts")

// TestWorldsLeaveNothing runs many deployments at once, as parallel tests do: no goroutine is left, and little memory. Outside
// of a bubble, timers of nats-server keep a part of each server for two minutes after its end.
//
// It is not parallel itself, so that all that is left is its own.
func TestWorldsLeaveNothing(t *testing.T) { //nolint:paralleltest // see above
	const kib = 1 << 10
	tools := turnlogtest.Tools(weather(tool.ReadOnly()))
	for _, tc := range []struct {
		name  string
		world func(*testing.T)
		keeps int64 // bytes
	}{
		{"bubbles", func(t *testing.T) {
			turnlogtest.Bubble(t, func(_ *testing.T, d *turnlogtest.Deployment) { talk(d) }, tools)
		}, 16 * kib},
		{"real time", func(t *testing.T) { talk(turnlogtest.New(t, tools)) }, 384 * kib},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Run("warm", tc.world) // what the process keeps
			before, current := heap(), goleak.IgnoreCurrent()
			t.Run("many", func(t *testing.T) {
				for range *worlds {
					t.Run("world", func(t *testing.T) {
						t.Parallel()
						tc.world(t)
					})
				}
			})
			goleak.VerifyNone(t, current)
			if kept := (heap() - before) / int64(*worlds); kept > tc.keeps {
				t.Errorf("each world keeps %d KiB", kept/kib)
			}
		})
	}
}

// talk is a turn with a call.
func talk(d *turnlogtest.Deployment) {
	s := d.Script(forecast)
	s.Say("How is the weather in Oslo?")
	s.ExpectReply("It is sunny.")
}

// heap returns the memory that is in use. The first collection empties pools.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package actor

import (
	"sync/atomic"
	"time"

	"github.com/turnlog/turnlog/content"
)

// clock knows whether the node's clock can be compared with the servers'. A worker that
// gets a task sees how long it was on its way by the two; were the node's clock ahead by just
// as much, one that came late would seem to have come in time. So a node whose clock differs,
// or that does not know, puts no time on its tasks, and workers always look for a fence. It
// is safe for concurrent use.
type clock struct {
	agreed atomic.Pointer[time.Time] // when it was last found right; with the monotonic clock
}

const (
	clockOff   = 50 * time.Millisecond // half of what a worker takes for in time
	clockKnown = 3 * recordEvery
)

// compared hears how far ahead the clock was when the node's record was made.
func (c *clock) compared(ahead time.Duration) {
	if ahead.Abs() > clockOff {
		c.agreed.Store(nil)
		return
	}
	now := time.Now()
	c.agreed.Store(&now)
}

// comparable returns a time that this node or an earlier one put on an entry, or zero if it may
// not be compared with the servers' clocks.
func (c *clock) comparable(at content.Time) content.Time {
	agreed := c.agreed.Load()
	if now := time.Now(); agreed == nil || now.Sub(*agreed) > clockKnown || at.Std().After(now) {
		return 0
	}
	return at
}

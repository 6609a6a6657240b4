package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause between attempts: doubled each time, with jitter, so that
// the slots of many workers do not come back in step. The zero value is ready.
type backoff struct {
	next time.Duration
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// wait pauses and reports whether ctx is still on.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = min(max(2*b.next, firstPause), maxPause)
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff pauses between attempts. The pause doubles each time, with jitter, so that many workers
// do not retry in step. The zero value is ready.
type backoff struct {
	next time.Duration
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// wait pauses and reports whether ctx has not ended.
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

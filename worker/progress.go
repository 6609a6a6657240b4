package worker

import (
	"sync"
	"time"

	"github.com/turnlog/turnlog/task"
)

// progressEvery is how often what a tool says of itself is passed on.
const progressEvery = 200 * time.Millisecond

// progress returns what a call tells its progress to. A tool may do so in every
// turn of a loop, so most of it is dropped.
func (w *Worker) progress(t task.Task) func(string, float64) {
	if w.cfg.Progress == nil {
		return nil
	}
	var mu sync.Mutex
	var last time.Time
	return func(text string, share float64) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			w.cfg.Progress(t, text, share)
		}
	}
}

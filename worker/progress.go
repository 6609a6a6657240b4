package worker

import "github.com/turnlog/turnlog/worker/task"

// progress returns what a call tells its progress to.
func (w *Worker) progress(t task.Task) func(string, float64) {
	if w.cfg.Progress == nil {
		return nil
	}
	return func(text string, share float64) { w.cfg.Progress(t, text, share) }
}

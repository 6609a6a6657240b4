package toolset

import (
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/worker/task"
)

// Progress shows what running tools say of themselves to whoever looks on.
func Progress(live *jetstream.Live, log *zap.Logger) func(task.Task, string, float64) {
	return func(t task.Task, text string, share float64) {
		if err := live.Publish(t.Session, events.ToolProgress{Call: t.Call, Text: text, Share: share}); err != nil {
			log.Debug("progress not shown", zap.Error(err))
		}
	}
}

package actor

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// directReport is a report that a worker sent to the driver itself. The worker waits for the answer.
type directReport struct {
	jetstream.Message

	command commands.Command
	awaited bool // its call ran when it arrived
}

// receiveDirect handles a direct report and those that arrived after it. Only reports that ended a running call
// count as recorded. A driver that has lost its session without knowing it may find that others have no effect,
// but for the next driver they have one. A report without its ticket gets no answer: its sender chose where
// the answer goes.
func (d *driver) receiveDirect(ctx context.Context, raw *nats.Msg) error {
	err := d.handleAll(ctx, func(yield func(jetstream.Message, error) bool) {
		for raw := range ready(raw, d.live.Direct()) {
			if !yield(d.live.Report(raw), nil) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	for _, r := range d.direct {
		r.Answer(r.awaited && !awaits(d.State, r.command))
	}
	d.direct = nil // they hold outputs
	return d.sync(ctx)
}

// awaits reports whether a command is the result of an attempt that runs.
func awaits(s *loop.State, c commands.Command) bool {
	r, ok := c.(commands.ReportResult)
	if !ok {
		return false
	}
	call, ok := s.CallAt(r.Place)
	return ok && call.Running() && call.Attempt == r.Attempt
}

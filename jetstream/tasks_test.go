package jetstream

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/tasktest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func TestQueuesKeepTheContract(t *testing.T) {
	t.Parallel()
	tasktest.Run(t, func(t *testing.T, lease time.Duration) tasktest.Env {
		s := startServer(t)
		driver := provision(t, connect(t, s))
		return tasksOf(driver, lease, func(t *testing.T) *Cell { return openCell(t, connect(t, s)) })
	})
}

// tasksOf returns the queues of a cell for the contract's tests; worker opens the cell for another
// worker.
func tasksOf(driver *Cell, lease time.Duration, worker func(*testing.T) *Cell) tasktest.Env {
	return tasktest.Env{
		Dispatcher: driver.Tasks(),
		Queue: func(t *testing.T, name string) task.Queue {
			createQueue(t, driver, queueOf{name: name, lease: lease})
			q, err := worker(t).Queue(t.Context(), name)
			must(t, err)
			return q
		},
		Reports: func(t *testing.T, id content.SessionID) []task.Report { return reportsOf(t, driver, id) },
	}
}

// reportsOf reads what workers reported for a session.
func reportsOf(t *testing.T, c *Cell, id content.SessionID) []task.Report {
	t.Helper()
	var out []task.Report
	for _, m := range read(t, c, id) {
		must(t, m.Err)
		if r, ok := m.Envelope.Command.(commands.ReportResult); ok {
			out = append(out, task.Report{Session: id, Place: r.Place, Attempt: r.Attempt, Queue: r.Queue, Outcome: r.Outcome})
		}
		if r, ok := m.Envelope.Command.(commands.ReportAttemptLost); ok {
			out = append(out, task.Report{Session: id, Place: r.Place, Attempt: r.Attempt, Queue: r.Queue, Lost: true, Reason: r.Reason})
		}
		if r, ok := m.Envelope.Command.(commands.ReportQuestion); ok {
			g := r.Question
			out = append(out, task.Report{Session: id, Place: r.Place, Attempt: r.Attempt, Question: &tool.Verdict{
				RequestKind: g.RequestKind, Reason: g.Reason, Summary: g.Summary, Metadata: g.Metadata, TTL: g.TTL,
			}})
		}
	}
	return out
}

func TestACancelThatCannotTakeATaskOffItsQueueIsAnError(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		createQueue(t, c, queueOf{name: "tools"})
		x := shellTask("t1-r1-c1")
		must(t, c.Tasks().Dispatch(t.Context(), x))
		cancel := func() error { return c.Tasks().Cancel(t.Context(), x.Queue, x.Session, x.Place, "why") }
		for _, s := range c.names.Streams() {
			if s.Config.Name == c.names.TasksStream() {
				s.Config.Storage, s.Config.DenyDelete = jetstream.MemoryStorage, true
				must(t, jsOf(t, c).DeleteStream(t.Context(), s.Config.Name))
				_, err := jsOf(t, c).CreateStream(t.Context(), s.Config)
				must(t, err)
			}
		}
		must(t, cancel()) // there is no such task
		must(t, c.Tasks().Dispatch(t.Context(), x))
		if err := cancel(); err == nil {
			t.Error("Cancel of a task that the server does not delete succeeds")
		}
	})
}

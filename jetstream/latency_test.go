package jetstream

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// onEachTransport runs a benchmark over in-process connections with streams in memory, and over TCP
// with streams on disk. It passes the cells of a driver and a worker, each with its own connection.
func onEachTransport(b *testing.B, run func(b *testing.B, driver, worker *Cell)) {
	b.Run("inproc", func(b *testing.B) {
		s := startServer(b)
		run(b, provision(b, connect(b, s), queueOf{name: "tools"}), openCell(b, connect(b, s)))
	})
	b.Run("tcp", func(b *testing.B) {
		s := startServer(b, embedded.WithListener("127.0.0.1:0"), embedded.WithStore(b.TempDir()))
		var cells []*Cell
		for range 2 {
			cells = append(cells, openCell(b, connectTCP(b, s)))
		}
		create(b, cells[0], jetstream.FileStorage, 1, queueOf{name: "tools"})
		run(b, cells[0], cells[1])
	})
}

// BenchmarkWakeToTake measures the time from WakeSoon until another process has the token.
func BenchmarkWakeToTake(b *testing.B) {
	onEachTransport(b, func(b *testing.B, driver, waker *Cell) {
		tokens := make(chan *Token)
		runs := driver.Runs()
		go func() {
			for {
				token, err := runs.Take(b.Context())
				if err != nil {
					return
				}
				tokens <- token
			}
		}()
		for b.Loop() {
			waker.Runs().WakeSoon("s1")
			token := <-tokens
			b.StopTimer()
			must(b, token.Done(b.Context()))
			must(b, token.WaitGone(b.Context()))
			b.StartTimer()
		}
	})
}

// BenchmarkDispatchToClaim measures the time from Dispatch until a worker has the task.
func BenchmarkDispatchToClaim(b *testing.B) {
	onEachTransport(b, func(b *testing.B, driver, worker *Cell) {
		claims := claimAll(b, worker)
		tasks := driver.Tasks()
		for i := 0; b.Loop(); i++ {
			must(b, tasks.Dispatch(b.Context(), benchTask("s1", i)))
			c := <-claims
			b.StopTimer()
			must(b, c.Done(b.Context()))
			b.StartTimer()
		}
	})
}

// BenchmarkTaskRoundTrip measures a call without its journal entries: dispatch, claim, report, and
// the report's arrival at the driver. As in a deployment, the worker's Done runs concurrently.
func BenchmarkTaskRoundTrip(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			onEachTransport(b, func(b *testing.B, driver, worker *Cell) {
				q, err := worker.Queue(b.Context(), "tools")
				must(b, err)
				for range sessions {
					go work(b, q)
				}
				b.ResetTimer()
				roundTrips(b, driver, sessions)
			})
		})
	}
}

// roundTrips divides b.N round trips among concurrent sessions.
func roundTrips(b *testing.B, driver *Cell, sessions int) {
	done := make(chan error)
	for n := range sessions {
		s := content.SessionID(fmt.Sprint("s", n))
		l, err := driver.Inbox().Listen(b.Context(), s)
		must(b, err)
		b.Cleanup(l.Close)
		go func() {
			for i := n; i < b.N; i += sessions {
				if err := driver.Tasks().Dispatch(b.Context(), benchTask(s, i)); err != nil {
					done <- err
					return
				}
				m := l.Message(<-l.C())
				if err := driver.Inbox().Open(b.Context(), &m); err != nil || m.Err != nil || m.Gap {
					done <- fmt.Errorf("received %+v", m)
					return
				}
			}
			done <- nil
		}()
	}
	for range sessions {
		must(b, <-done)
	}
}

func benchTask(s content.SessionID, i int) task.Task {
	return task.Task{
		Session: s, Turn: "turn-1", Call: "call_0123456789", Place: content.PlaceOf(1, i+1, 1), Attempt: 1, Queue: "tools",
		Tool: "fs_read_file", Input: []byte(`{"path":"README.md"}`), IdempotencyKey: "k",
	}
}

// work runs tasks like a worker's slot until the connection ends.
func work(b *testing.B, q *Queue) {
	for {
		c, err := q.Claim(b.Context())
		if err != nil {
			return
		}
		x := c.Task()
		r := task.Report{Session: x.Session, Call: x.Call, Place: x.Place, Attempt: 1, Queue: x.Queue, Outcome: tool.Result{
			Result: content.NewResult(x.Call, x.Tool, content.StatusOK, "a line of text"),
		}}
		if c.Report(b.Context(), r) != nil || c.Done(b.Context()) != nil {
			return
		}
	}
}

func claimAll(b *testing.B, worker *Cell) <-chan task.Claim {
	q, err := worker.Queue(b.Context(), "tools")
	must(b, err)
	claims := make(chan task.Claim)
	go func() {
		for {
			c, err := q.Claim(b.Context())
			if err != nil {
				return
			}
			claims <- c
		}
	}()
	return claims
}

package jetstream

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
)

// transports are the connections that the benchmarks run on.
func transports(b *testing.B, run func(b *testing.B, c *Cell)) {
	b.Run("memory-inproc", func(b *testing.B) { run(b, newCell(b)) })
	b.Run("disk-tcp", func(b *testing.B) {
		cell := openCell(b, connectTCP(b, startServer(b, onDisk(b)...)))
		create(b, cell, jetstream.FileStorage, 1)
		run(b, cell)
	})
}

func newSession() content.SessionID { return content.SessionID(rand.Text()) }

// BenchmarkAppend compares Append with the same guarded write by the client's own call.
func BenchmarkAppend(b *testing.B) {
	transports(b, func(b *testing.B, c *Cell) {
		b.Run("append", func(b *testing.B) {
			j, s := c.Journal(), newSession()
			var head journal.Head
			for i := 0; b.Loop(); i++ {
				var err error
				head, err = j.Append(b.Context(), head, journaltest.Entry(s, i))
				must(b, err)
			}
		})
		b.Run("floor", func(b *testing.B) {
			s := newSession()
			_, payload, _, err := journal.Link(journal.Head{}, journaltest.Entry(s, 1))
			must(b, err)
			msg := &nats.Msg{Subject: c.names.Journal(s), Data: payload}
			var guard uint64
			for b.Loop() {
				ack, err := jsOf(b, c).PublishMsg(b.Context(), msg, jetstream.WithExpectLastSequencePerSubject(guard))
				must(b, err)
				guard = ack.Sequence
			}
		})
	})
}

// BenchmarkHydrate reads a journal of 10,000 entries that are interleaved with those of nine other
// sessions.
func BenchmarkHydrate(b *testing.B) {
	const entries, others = 10_000, 9
	transports(b, func(b *testing.B, c *Cell) {
		j := c.Journal()
		heads := map[content.SessionID]journal.Head{}
		for i := range entries {
			for k := range others + 1 {
				s := content.SessionID(fmt.Sprintf("s-%d", k))
				head, err := j.Append(b.Context(), heads[s], journaltest.Entry(s, i))
				must(b, err)
				heads[s] = head
			}
		}
		for b.Loop() {
			n := 0
			for _, err := range j.Read(b.Context(), "s-3", 0) {
				must(b, err)
				n++
			}
			if n != entries {
				b.Fatalf("%d entries, want %d", n, entries)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*entries), "ns/entry")
	})
}

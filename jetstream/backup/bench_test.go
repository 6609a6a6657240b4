package backup

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// BenchmarkBackup copies cells with 100,000 entries of 300 bytes, and restores them on another server.
func BenchmarkBackup(b *testing.B) {
	for _, sessions := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			old := provisioned(b)
			ids := make([]int, sessions)
			for i := range ids {
				ids[i] = i
			}
			noise := hex.EncodeToString(natstest.Noise(120, 1))
			api.Together(ids[:min(len(ids), 64)], func(from int) error {
				for i := from; i < sessions; i += 64 {
					evs := []events.Event{claim(1)}
					for len(evs) < 100_000/sessions-1 {
						evs = append(evs, text(noise))
					}
					if evs = append(evs, events.Parked{}); sessions == 100_000 {
						evs = []events.Event{claim(1)}
					}
					write(b, old, content.SessionID(fmt.Sprintf("session-%d", i)), evs...)
				}
				return nil
			})
			var made, restored time.Duration
			var size int64
			for b.Loop() {
				dir := filepath.Join(b.TempDir(), "backup")
				begin := time.Now()
				m, err := Create(b.Context(), old, dir, "test")
				must(b, err)
				made += time.Since(begin)
				size = 0
				for _, s := range m.Streams {
					size += s.Size
				}
				cell := open(b, server(b))
				begin = time.Now()
				r := restoreInto(b, cell, dir)
				restored += time.Since(begin)
				if r.Sessions != sessions {
					b.Fatalf("%d sessions were restored", r.Sessions)
				}
			}
			b.ReportMetric(made.Seconds()/float64(b.N), "s/backup")
			b.ReportMetric(restored.Seconds()/float64(b.N), "s/restore")
			b.ReportMetric(float64(size)/1e6, "MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

package security

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/worker"
)

// BenchmarkRoundTrip measures a request of a client that the cell's account answers, with all users in that
// account and across an import.
func BenchmarkRoundTrip(b *testing.B) {
	plain, apart := newCell(b, false), newApart(b, false)
	conns := map[string]*nats.Conn{"one account": plain.connect("client"), "accounts": apart.connect("client")}
	for _, request := range []string{"$JS.API.STREAM.MSG.GET.TURNLOG_JOURNAL", "$O.TURNLOG_BLOBS.C.x"} {
		for name, nc := range conns {
			b.Run(request+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if _, err := nc.RequestWithContext(b.Context(), request, []byte(`{"last_by_subj":"none"}`)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkToolCall measures the way of a tool call from the node to a worker and back, in sessions with many
// calls one after another, in each layout.
func BenchmarkToolCall(b *testing.B) {
	const calls = 100
	script := "replies:\n" + strings.Repeat("  - calls: [{name: echo, input: {text: x}}]\n", calls) + "  - text: done\n"
	for name, start := range layouts() {
		b.Run(name, func(b *testing.B) {
			c := start(b, false)
			w := c.person("client")
			c.world("worker").Worker("w1", worker.Config{}, echoes(b))
			c.world("driver").Node(actor.Config{Policy: permission.AllowAll()})
			n := 0
			for b.Loop() {
				n++
				s := w.Start(content.SessionID(fmt.Sprintf("s-%d", n)), script)
				submit(w, s)
				next[*session.Finished](w, s)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n*calls), "µs/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}

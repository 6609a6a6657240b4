package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// BenchmarkTraces has a session take turns while nothing exports traces, and while a program exports a tenth of them. It reports
// the processor time of a turn in server and node, and that of the program that exports: elsewhere nothing is done for it.
func BenchmarkTraces(b *testing.B) {
	bin, err := clitest.Build(b.Context(), "./cmd/...")
	if err != nil {
		b.Fatal(err)
	}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(collector.Close)
	site := clitest.NewCell(b, bin, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	node := site.Start("driver-node")
	node.Await(b, "node started")
	server, _ := site.Server()
	c := open(b, site)
	const each = 300
	used := func(of ...*clitest.Program) (sum time.Duration) {
		for _, p := range of {
			sum += processor(b, p.PID())
		}
		return sum
	}
	turn := func(waited *time.Duration, of ...*clitest.Program) time.Duration {
		s, err := c.Start(b.Context(), client.Options{Config: events.Config{Model: "scripted:test", ModelData: []byte("replies: [{text: Yes., repeat: true}]")}})
		if err != nil {
			b.Fatal(err)
		}
		before, began := used(of...), time.Now()
		for range each {
			if _, err := s.RunText(b.Context(), "And?"); err != nil {
				b.Fatal(err)
			}
		}
		*waited += time.Since(began)
		return used(of...) - before
	}
	var without, with, exporting, waited, waitedWith time.Duration
	turns := 0
	for b.Loop() {
		turns += each
		without += turn(&waited, node, server)
		observer := site.Start("observer", "traces", "--sample", "0.1", "--log-level", "info", "--http", "127.0.0.1:0")
		observer.Await(b, "endpoints served")
		before := used(observer)
		with += turn(&waitedWith, node, server)
		<-time.After(3 * time.Second) // it exports now and then
		exporting += used(observer) - before
		observer.Stop()
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(turns) }
	b.ReportMetric(per(without), "µs/turn")
	b.ReportMetric(per(with), "µs/turn-while-exporting")
	b.ReportMetric(per(exporting), "µs/turn-of-exporter")
	b.ReportMetric(float64(waitedWith)/float64(waited), "times-as-long")
	b.ReportMetric(0, "ns/op")
}

// processor returns the processor time of a process.
func processor(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(raw)[strings.LastIndexByte(string(raw), ')')+2:])
	var ticks int
	for _, f := range fields[11:13] { // user and system
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100 // Linux counts hundredths
}

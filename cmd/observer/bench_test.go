//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// recorder is a journal that keeps nothing: it passes entries on.
type recorder struct {
	journal.Journal

	records chan<- journal.Record
}

func (r recorder) Append(_ context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	e, payload, next, err := journal.Seal(head, e)
	r.records <- journal.Record{Head: next, Entry: e, Payload: payload}
	return next, err
}

// recorded exports what a story writes, and returns the file and its number of entries.
func recorded(b *testing.B, story func(*writer)) (path string, entries int) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "long.jsonl")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	records := make(chan journal.Record, 64)
	go func() {
		defer close(records)
		w := &writer{t: b, journal: recorder{records: records}, state: loop.New("long")}
		w.do(commands.Claim{Node: "n1"})
		w.do(commands.OpenSession{Config: events.Config{Model: "demo"}})
		story(w)
	}()
	out := bufio.NewWriterSize(f, 1<<20)
	err = audit.Export(out, func(yield func(journal.Record, error) bool) {
		for rec := range records {
			entries++
			if !yield(rec, nil) {
				return
			}
		}
	})
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return path, entries
}

// calls is one round with n calls, each with its question.
func (w *writer) calls(n int, asked bool) {
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("What is in main.go?")}})
	var parts []content.Part
	var routing []content.Routing
	input := []byte(`{"path":"main.go"}`)
	for i := range n {
		parts = append(parts, content.CallPart(content.ToolCall{ID: content.CallID(fmt.Sprint("c", w.sent, "-", i)), Name: "fs_read_file", Input: input}))
		routing = append(routing, content.Routing{Known: true, Source: "w1", Queue: "default", Effects: content.ReadOnly, Digest: tool.Digest(input)})
	}
	w.reply(routing, parts...)
	report := commands.ReportPreflight{Turn: w.state.Turn.ID, Round: 1}
	for _, c := range w.state.Turn.Calls {
		check := commands.Check{Place: c.Place, Digest: c.Digest}
		if asked {
			check.Questions = []commands.Question{{RequestKind: "k"}}
		}
		report.Checks = append(report.Checks, check)
	}
	w.do(report)
	for _, c := range w.state.Turn.Calls {
		if asked {
			w.do(commands.ResolveApproval{Call: c.ID, Approve: true})
		}
	}
	for _, c := range w.state.Turn.Calls {
		w.do(commands.ReportResult{Place: c.Place, Attempt: 1, Queue: "default", Outcome: tool.Result{
			Result: content.NewResult(c.ID, "fs_read_file", content.StatusOK, "package main\n\nfunc main() {}\n"), Duration: 12 * time.Millisecond,
		}})
	}
	w.reply(nil, content.TextPart("A main function that does nothing."))
}

// BenchmarkVerifyFile runs the program on exported journals. It reports the CPU time of the process, per
// entry, and the most memory that it had. Times are of all its threads.
func BenchmarkVerifyFile(b *testing.B) {
	dir, err := clitest.Build(b.Context(), "./cmd/observer")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		story func(*writer)
	}{
		{"entries=5050", func(w *writer) { turns(w, 5_050) }},
		{"entries=505000", func(w *writer) { turns(w, 505_000) }},
		{"calls=4000", func(w *writer) { w.calls(4_000, false) }},
		{"calls=16000", func(w *writer) { w.calls(16_000, false) }},
		{"approvals=2000", func(w *writer) { w.calls(2_000, true) }},
		{"approvals=8000", func(w *writer) { w.calls(8_000, true) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			path, entries := recorded(b, c.story)
			var spent time.Duration
			var most int64
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), filepath.Join(dir, "observer"), "verify", "--file", path)
				cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				usage := cmd.ProcessState.SysUsage().(*syscall.Rusage) //nolint:forcetypeassert // on unix
				spent += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				most = max(most, usage.Maxrss>>10)
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N*entries), "cpu-µs/entry")
			b.ReportMetric(float64(most), "MB")
		})
	}
}

// turns writes turns of two calls each until there are n entries.
func turns(w *writer, n int) {
	for int(w.head.Seq) < n {
		w.calls(2, false)
	}
}

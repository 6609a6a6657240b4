package explain_test

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

func search(t testing.TB, q explain.Query, records []journal.Record) (hits []explain.Hit) {
	t.Helper()
	s := explain.NewSearcher(q)
	for _, r := range records {
		if err := s.Add(r, func(h explain.Hit) error { hits = append(hits, h); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return hits
}

func TestAQueryFindsTheEventsThatFitAllOfIt(t *testing.T) {
	t.Parallel()
	records := approved(t).records
	second := records[1].Entry.At
	for _, c := range []struct {
		query explain.Query
		want  string
	}{
		{explain.Query{Tool: "sh"}, "tool_call_requested approval_required approval_resolved hook_decided tool_dispatched tool_result_received"},
		{explain.Query{Tool: "s*", Status: "approved"}, "approval_resolved"},
		{explain.Query{Person: "eve"}, "approval_resolved"},
		{explain.Query{Person: "*", Tool: "read"}, ""},
		{explain.Query{Status: "lost"}, "tool_attempt_lost"},
		{explain.Query{Status: "ok", Tool: "read"}, "tool_result_received"},
		{explain.Query{Text: "CLEAN up"}, "input_queued input_accepted"},
		{explain.Query{Text: "rm a"}, "approval_resolved tool_dispatched"},
		{explain.Query{Text: "no such text"}, ""},
		{explain.Query{From: second, To: second + 1}, "run_started policy_applied"},
		{explain.Query{From: second, To: second}, ""},
	} {
		var kinds []string
		for _, h := range search(t, c.query, records) {
			kinds = append(kinds, string(h.Kind))
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%+v finds %q, want %q", c.query, got, c.want)
		}
	}
	if h := search(t, explain.Query{Text: "rm -r"}, records); len(h) == 0 || h[0].Session != "s-1" || h[0].Seq == 0 || !strings.Contains(h[0].Text, "rm -r") {
		t.Errorf("a hit is %+v", h)
	}
}

// A long text is shown around the place that fits, whole characters only.
func TestAHitShowsItsSurroundings(t *testing.T) {
	t.Parallel()
	s := begin(t, events.Config{})
	s.say("bob", strings.Repeat("ä", 300)+" needle "+strings.Repeat("ü", 300))
	h := search(t, explain.Query{Text: "Needle", Person: "bob"}, s.records)
	if len(h) != 1 || len(h[0].Text) > 200 || !strings.Contains(h[0].Text, "ä needle ü") || strings.ToValidUTF8(h[0].Text, "?") != h[0].Text {
		t.Errorf("the hit is %+v", h)
	}
}

// long is a journal of many turns of a call each.
func long(b *testing.B, turns int) []journal.Record {
	b.Helper()
	s := begin(b, events.Config{}, events.Rule{Tool: "*", Action: events.RuleAllow})
	for n := range turns {
		s.say("bob", "Look at this, please, and say what it is.")
		s.reply("I will look.", call(fmt.Sprint("c", n), "read", `{"path":"some/file/in/the/tree.go"}`))
		s.preflight()
		s.result(s.state.Turn.Calls[0].Place, 1, strings.Repeat("A line of the file that was read.\n", 10))
		s.reply("It is a file of a tree.")
	}
	return s.records
}

// cpuTime is the CPU time of the process, which does not depend on other load.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkSearch searches for a text, and for a tool that no call has: in records as they are in memory, with
// decoding, and in an export with all checks of its view.
func BenchmarkSearch(b *testing.B) {
	records := long(b, 400)
	var file bytes.Buffer
	if err := audit.Export(&file, journal.All(records)); err != nil {
		b.Fatal(err)
	}
	sources := map[string]func() iter.Seq2[journal.Record, error]{
		"memory": func() iter.Seq2[journal.Record, error] {
			return func(yield func(journal.Record, error) bool) {
				for _, r := range records {
					yield(r, nil)
				}
			}
		},
		"decode": func() iter.Seq2[journal.Record, error] {
			return func(yield func(journal.Record, error) bool) {
				for _, r := range records {
					e, err := events.Decode(r.Payload)
					yield(journal.Record{Head: journal.Head{Seq: e.Seq, Hash: events.HashOf(r.Payload)}, Entry: e, Payload: r.Payload}, err)
				}
			}
		},
		"file": func() iter.Seq2[journal.Record, error] { return audit.Import(bytes.NewReader(file.Bytes())) },
	}
	for _, source := range []string{"memory", "decode", "file"} {
		for name, q := range map[string]explain.Query{"text": {Text: "not in there"}, "tool": {Tool: "write", From: content.Time(1)}} {
			b.Run(source+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				began := cpuTime(b)
				for b.Loop() {
					s := explain.NewSearcher(q)
					for r, err := range sources[source]() {
						if err != nil {
							b.Fatal(err)
						}
						if err := s.Add(r, func(explain.Hit) error { return nil }); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(len(records)*b.N)/(cpuTime(b)-began).Seconds(), "entries/cpu-s")
			})
		}
	}
}

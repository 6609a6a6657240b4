package turnlogtest

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/tool"
)

var update = flag.Bool("turnlogtest.update", false, "rewrite golden transcripts; review the diff") //nolint:gochecknoglobals // flags are

// ExpectReply fails the test if the last turn did not end with the text.
func (s *Session) ExpectReply(text string) {
	s.d.T.Helper()
	if s.reply != text {
		s.d.T.Errorf("the reply is %q, want %q", s.reply, text)
	}
}

// ExpectApproval ends the test if the turn does not wait for an approval of a call of the tool.
func (s *Session) ExpectApproval(tool string) {
	s.d.T.Helper()
	switch {
	case s.asks == nil:
		s.d.T.Fatalf("nothing waits for an approval, want a call of %s", tool)
	case s.asks.Tool != tool:
		s.d.T.Fatalf("a call of %s waits for an approval, want one of %s", s.asks.Tool, tool)
	}
}

// ExpectCalls compares the tool calls of the session, in the order in which the model asked for them, with
// lines such as `weather {"city":"Oslo"} → ok: sunny`. A call without a result has no arrow.
func (s *Session) ExpectCalls(want ...string) {
	s.d.T.Helper()
	s.same("calls", want, s.calls())
}

// ExpectTranscript compares the transcript with [Lines].
func (s *Session) ExpectTranscript(want ...string) {
	s.d.T.Helper()
	s.same("transcript", want, Lines(s.Snapshot().Transcript))
}

// ExpectGolden compares the transcript with the file testdata/NAME.golden, or writes it with the flag
// -turnlogtest.update.
func (s *Session) ExpectGolden(name string) {
	s.d.T.Helper()
	text := strings.Join(Lines(s.Snapshot().Transcript), "\n") + "\n"
	golden.Check(s.d.T, *update, filepath.Join("testdata", name+".golden"), text)
}

// ExpectInvariants audits the journal: its chain and every invariant.
func (s *Session) ExpectInvariants() {
	s.d.T.Helper()
	s.d.Records(s.ID())
}

func (s *Session) same(what string, want, got []string) {
	s.d.T.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.d.T.Errorf("%s of session %s (-want +got):\n%s", what, s.ID(), diff)
	}
}

// calls returns the session's calls, a line each.
func (s *Session) calls() (lines []string) {
	s.d.T.Helper()
	at := make(map[content.CallID]int)
	for _, rec := range s.d.Records(s.ID()) {
		for _, ev := range rec.Entry.Events {
			switch ev := ev.(type) { //nolint:gochecksumtype // the others are not about calls
			case events.ToolCallRequested:
				at[ev.Call.ID] = len(lines)
				lines = append(lines, call(ev.Call))
			case events.ToolResultReceived:
				lines[at[ev.Result.CallID]] += " → " + string(ev.Result.Status) + ": " + ev.Result.Text()
			}
		}
	}
	return lines
}

// Lines shows items of a transcript, a line each: their kind, text, calls and results.
func Lines(items []content.Item) []string {
	var out []string
	for _, it := range items {
		var b strings.Builder
		b.WriteString(string(it.Kind))
		b.WriteString(":")
		if text := it.Text(); text != "" {
			b.WriteString(" " + text)
		}
		for _, c := range it.Calls() {
			b.WriteString(" [" + call(c) + "]")
		}
		for _, r := range it.Results() {
			fmt.Fprintf(&b, " %s %s: %s", r.Name, r.Status, r.Text())
		}
		out = append(out, b.String())
	}
	return out
}

// call shows a call with its arguments in canonical form.
func call(c content.ToolCall) string { return c.Name + " " + string(tool.Canonical(c.Input)) }

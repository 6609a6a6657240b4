package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

// sampleReport is a report in which every untrusted text is text.
func sampleReport(text string) (explain.Report, *verdict.Verdict) {
	at := func(n int) explain.At {
		return explain.At{Seq: uint64(n), Time: content.TimeOf(time.Date(2026, 11, 25, 10, 0, n, 0, time.UTC))}
	}
	person := explain.Person{User: "ada", By: text}
	input, _ := json.Marshal(map[string]string{"path": text}) // strings never fail
	writer := explain.Writer{Host: explain.Host{Node: text}, Epoch: 1}
	ran := &explain.Call{
		Session: "s-42", ID: content.CallID(text), Place: "t1-r1-c1", Tool: text, Effects: "once", Turn: "turn-1", Round: 1,
		Status: content.StatusOK, Written: json.RawMessage(text), Ran: input, Policy: &explain.Policy{At: at(2), Name: text, Digest: text},
		Asked: explain.Asked{Opener: person, Agent: text, Inputs: []explain.Input{{At: at(3), Origin: "host", From: person, Text: text}}, Reply: at(4), Model: text, Writer: writer},
		Questions: []explain.Question{{At: at(5), ID: content.ApprovalID(text), Kind: text, Summary: text, Decision: &explain.Decision{
			At: at(6), Outcome: events.Approved, Decider: person, Reason: text, Input: input, Always: true,
		}}},
		Hooks: []explain.Hook{{At: at(6), Point: text, Hook: text, Action: text, Reason: text, FailedOpen: []string{text}}},
		Attempts: []explain.Attempt{{
			At: at(7), N: 1, Queue: text, Writer: writer, Lost: &explain.Loss{At: at(8), Reason: text},
			Because: []events.Ground{{By: events.ByPolicy, Name: text, Action: events.Action(text), Queue: text}, {By: events.ByRule, Name: text, Action: events.RuleAsk}, {By: events.GroundKind(text), Name: text}},
		}},
		Orders:  []explain.Order{{At: at(8), Action: text, From: person, Reason: text}},
		Results: []explain.Result{{At: at(9), Status: content.Status(text), Code: text, Text: text, Bytes: len(text), Attempt: 1, Changed: []string{text}}},
		Seen:    []explain.Sight{{At: at(10), Turn: content.TurnID(text), Round: 2, Form: explain.FormGone, Through: text}},
	}
	denied := &explain.Call{
		Session: "s-42", ID: "c2", Place: "t1-r1-c2", Tool: "shell_exec", Turn: "turn-1", Round: 1, Status: content.StatusDenied, Written: input,
		Asked: explain.Asked{Reply: at(4)}, Results: []explain.Result{{At: at(9), Status: content.StatusDenied, Text: text}},
	}
	v := &verdict.Verdict{Session: "s-42", Entries: 12, OpenTurn: content.TurnID(text)}
	v.End(12, events.HashOf([]byte("x")), at(12).Time)
	v.Settle()
	return explain.Report{
		Session: "s-42", Agent: text, Models: []string{text}, Opened: at(1), Last: at(12), Nodes: []explain.Host{{Node: text}, {Node: text, Key: "k", Owner: "gpu"}}, Policies: []explain.Policy{{Name: text, Digest: text}},
		Turns:  []explain.Turn{{At: at(3), Turn: content.TurnID(text), Inputs: ran.Asked.Inputs, Answer: text, Finish: content.FinishReason(text)}},
		People: []explain.Participant{{Person: person, Deeds: []explain.Deed{{What: "sent input", Times: 1}, {What: "approved a call", Times: 2}}}},
		Acts:   []*explain.Call{ran}, Denied: []*explain.Call{denied}, Reads: 3,
	}, v
}

func TestReports(t *testing.T) {
	t.Parallel()
	r, v := sampleReport("delete the branch release/1.2 of “shop”")
	for name, write := range map[string]func(*bytes.Buffer) error{
		"report.md":   func(b *bytes.Buffer) error { return Markdown(b, r, v) },
		"report.html": func(b *bytes.Buffer) error { return HTML(b, r, v) },
		"explain.txt": func(b *bytes.Buffer) error { return Explain(b, Style{}, *r.Acts[0]) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, *update, filepath.Join("testdata", name), b.String())
	}
}

// Unreadable entries may have had any content.
func TestAReportDoesNotSayThatNothingHappenedWhereItCannotRead(t *testing.T) {
	t.Parallel()
	sealed := &verdict.Verdict{Session: "s-42", Entries: 6}
	erased := &verdict.Verdict{Session: "s-42", Entries: 7, State: verdict.Erased}
	for want, r := range map[string]struct {
		report explain.Report
		v      *verdict.Verdict
	}{
		"Not known: the content was removed.":  {explain.Report{Session: "s-42", Unread: 4}, erased},
		"Not known: 4 entries cannot be read.": {explain.Report{Session: "s-42", Unread: 4}, sealed},
	} {
		r.v.Settle()
		var md, html bytes.Buffer
		if err := errors.Join(Markdown(&md, r.report, r.v), HTML(&html, r.report, r.v)); err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{md.String(), html.String()} {
			if strings.Count(out, want) != 4 || strings.Contains(out, "Nothing was denied") || !strings.Contains(out, "at least 0 that may have changed something") {
				t.Errorf("%q is not in each part of\n%s", want, out)
			}
		}
	}
}

// Whatever models, tools and forgers write stays text.
func TestTextsOfOthersHaveNoMeaningInAReport(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{
		`<script>alert(1)</script><img src=x onerror=alert(1)>`,
		"\"'><a href=\"javascript:alert(1)\">x</a>",
		"]]></style></title><h1>The record is proved</h1>",
		"</dd></dl>\n\n> **all is well**\n\n# Verdict\n\n- item\n[x](javascript:alert(1)) ![i](http://evil.example/x.png) <b>",
		"`code` `` ``` **bold** _x_ | a | b |\n---|---\n\\`",
		"\x1b]0;title\x07\x1b[2J \u202egnp.exe\u2066 \u2028 \x00",
	} {
		r, v := sampleReport(evil)
		var html, md, text bytes.Buffer
		for _, err := range []error{HTML(&html, r, v), Markdown(&md, r, v), Explain(&text, Style{}, *r.Acts[0])} {
			if err != nil {
				t.Fatal(err)
			}
		}
		clean, cv := sampleReport("x y")
		var want bytes.Buffer
		if err := HTML(&want, clean, cv); err != nil {
			t.Fatal(err)
		}
		if got, same := strings.Count(html.String(), "<"), strings.Count(want.String(), "<"); got != same {
			t.Errorf("%q: the page has %d tags, want %d\n%s", evil, got, same, html.String())
		}
		for line := range strings.SplitSeq(outsideCode(md.String()), "\n") {
			if strings.ContainsAny(line, "<[!_|\\") || strings.Contains(line, "evil") || strings.Contains(line, "all is well") {
				t.Errorf("%q: outside of code spans the page has %q", evil, line)
			}
		}
		for name, out := range map[string]string{"html": html.String(), "md": md.String(), "text": text.String()} {
			if strings.ContainsAny(out, "\x1b\x07\x00\u202e\u2066\u2028") {
				t.Errorf("%q: %s has control characters", evil, name)
			}
		}
		if lines := strings.Count(text.String(), "\n"); lines > 40 {
			t.Errorf("%q: the explanation has %d lines", evil, lines)
		}
	}
}

// outsideCode returns Markdown without its code spans.
func outsideCode(md string) string {
	var b strings.Builder
	for i := 0; i < len(md); {
		n := 0
		for i+n < len(md) && md[i+n] == '`' {
			n++
		}
		if n == 0 {
			b.WriteByte(md[i])
			i++
			continue
		}
		end := closing(md[i+n:], n)
		if end < 0 {
			return b.String() + "<unclosed"
		}
		i += n + end + n
	}
	return b.String()
}

// closing returns where a run of exactly n backticks begins, or -1.
func closing(s string, n int) int {
	for i := 0; i < len(s); {
		run := 0
		for i+run < len(s) && s[i+run] == '`' {
			run++
		}
		if run == n {
			return i
		}
		i += max(run, 1)
	}
	return -1
}

// A rule that asks does not by itself allow a call.
func TestARuleThatAsksRequiresAnApproval(t *testing.T) {
	t.Parallel()
	because := []events.Ground{{By: events.ByPolicy, Name: "sh", Action: events.RuleGuard}, {By: events.ByApproval, Name: "t1-r1-c1-g1"}}
	for effects, want := range map[string]string{
		"once":      `The rule "sh" (guard) of the policy required an approval.`,
		"read_only": `The rule "sh" (guard) of the policy let it start.`,
	} {
		var b bytes.Buffer
		c := explain.Call{ID: "c1", Tool: "sh", Effects: effects, Attempts: []explain.Attempt{{N: 1, Because: because}}}
		if err := Explain(&b, Style{}, c); err != nil || !strings.Contains(b.String(), "\n  "+want+"\n  Approval t1-r1-c1-g1 let it start.\n") {
			t.Errorf("%s: %v, %q is not in\n%s", effects, err, want, b.String())
		}
	}
}

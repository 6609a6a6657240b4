package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
)

// act is a turn whose call may change something, and one that is denied.
func (w *writer) act() *writer {
	w.t.Helper()
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("Clean up, please.")}})
	w.reply([]content.Routing{{Known: true, Queue: "default"}, {Known: true, Queue: "default"}},
		content.CallPart(content.ToolCall{ID: "c1", Name: "fs_delete", Input: []byte(`{"path":"a.tmp"}`)}),
		content.CallPart(content.ToolCall{ID: "c2", Name: "shell_exec", Input: []byte(`{"command":"rm -rf /"}`)}))
	first, second := w.state.Turn.Calls[0].Place, w.state.Turn.Calls[1].Place
	question := commands.Question{RequestKind: "tool.call", Reason: content.PolicyRequiresConfirmation, Summary: "shell_exec rm -rf /"}
	w.do(commands.ReportPreflight{Turn: "turn-1", Round: 1, Checks: []commands.Check{{Place: first}, {Place: second, Questions: []commands.Question{question}}}})
	w.do(commands.ResolveApproval{Call: "c2", By: "eve", Reason: "never"})
	w.do(commands.ReportResult{Place: first, Attempt: 1, Queue: "default", Outcome: resultOf("c1", "fs_delete", "deleted")})
	w.reply(nil, content.TextPart("I deleted a.tmp."))
	return w
}

func TestASessionIsReported(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").act()
	code, out, errs := d.observe("report", "s-42")
	if code != 0 || errs != "" {
		t.Fatalf("report = %d %q", code, errs)
	}
	matches(t, "report.md", out)
	path := d.export("s-42")
	if code, same, errs := observe(t.Context(), nil, "report", "--file", path); code != 0 || same != out {
		t.Errorf("report --file = %d %q\n%s", code, errs, same)
	}
	_, heads, _ := d.observe("heads")
	if code, out, errs := observe(t.Context(), strings.NewReader(heads), "report", "--file", path, "--anchor", "-"); code != 0 ||
		!strings.Contains(out, "> **The record is unbroken, and still contains what was kept of it elsewhere.**") {
		t.Errorf("report --anchor = %d %q\n%s", code, errs, out)
	}
	_, page, _ := observe(t.Context(), nil, "report", "--file", path, "-o", "html")
	if !strings.HasPrefix(page, "<!doctype html>") || regexp.MustCompile(`(?i)<script|<link|<img|src=|href=|@import|url\(`).MatchString(page) || !strings.Contains(page, "fs_delete") {
		t.Errorf("the page needs more than itself:\n%s", page)
	}
	_, raw, _ := observe(t.Context(), nil, "report", "--file", path, "-o", "json")
	var r struct {
		explain.Report
		Verdict struct{ Level string }
	}
	if err := json.Unmarshal([]byte(raw), &r); err != nil || r.Verdict.Level != "chain" || len(r.Acts) != 1 || len(r.Denied) != 1 || r.Denied[0].Tool != "shell_exec" {
		t.Errorf("report -o json = %v\n%s", err, raw)
	}
}

// A damaged journal is reported as far as it goes, and not to be relied on.
func TestADamagedSessionIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").act()
	whole, err := os.ReadFile(d.export("s-42"))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := observe(t.Context(), strings.NewReader(string(whole[:len(whole)-9])), "report", "--file", "-")
	if code != 1 || !strings.Contains(out, "> **1 fault was found. Do not rely on what this report says.**") || !strings.Contains(out, "fs") || !strings.Contains(errs, "standard input: ") {
		t.Errorf("report of a truncated file = %d %q\n%s", code, errs, out)
	}
	for args, want := range map[string]string{
		"report":                "2 observer: give a SESSION or --file",
		"report s-42 --file x":  "2 observer: give a SESSION or --file",
		"report --file nowhere": "2 observer: --file nowhere: no such file",
		"report s-43":           "1 observer: session s-43: no such session",
		"report s-42 -o pdf":    `2 observer: --output "pdf": choose one of markdown, html, json`,
	} {
		code, out, errs := d.observe(strings.Fields(args)...)
		if got := string(rune('0'+code)) + " " + errs; out != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s = %q %q, want %q", args, got, out, want)
		}
	}
}

func TestASignedSessionIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	d.session("s-42").act()
	code, out, errs := d.observe("report", "s-42", "--keys-root", d.root)
	if code != 0 || !strings.Contains(out, "> **The record is unbroken, and each entry is signed by the host that wrote it.**") {
		t.Errorf("report = %d %q\n%s", code, errs, out)
	}
	if hosts, ran := "\n- Hosts: n1 of node-1\n", ", node n1 of node-1 (epoch 1), "; !strings.Contains(out, hosts) || !strings.Contains(out, ran) {
		t.Errorf("the report does not name the host: %q and %q\n%s", hosts, ran, out)
	}
	_, out, _ = d.observe("explain", "s-42", "c1")
	if want := "as node n1 (epoch 1) recorded it, signed with key " + d.cell.Key().ID() + "."; !strings.Contains(out, want) {
		t.Errorf("%q is not in\n%s", want, out)
	}
}

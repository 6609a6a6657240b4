package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestEventsAreShownLineByLine(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	code, out, errs := d.observe("events", "s-42")
	if code != 0 || errs != "" {
		t.Fatalf("events = %d %q", code, errs)
	}
	matches(t, "events.txt", out)

	_, tail, _ := d.observe("events", "s-42", "--from", "6")
	if tail == "" || !strings.HasSuffix(out, tail) || !strings.HasPrefix(tail, "    6  ") {
		t.Errorf("events --from 6:\n%s", tail)
	}
	if code, beyond, errs := d.observe("events", "s-42", "--from", "99"); code != 0 || beyond != "" || errs != "" {
		t.Errorf("events --from 99 = %d %q %q", code, beyond, errs)
	}
}

func TestEventsAsJSON(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	type entry struct {
		Seq    uint64
		Kinds  []string
		Events []struct{ Kind string }
		Hash   events.Hash
		Prev   events.Hash
	}
	_, out, _ := d.observe("events", "s-42", "-o", "json")
	var all []entry
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	_, out, _ = d.observe("events", "s-42", "-o", "jsonl")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(all) != len(lines) || len(all) < 6 {
		t.Fatalf("%d values, %d lines", len(all), len(lines))
	}
	for i, line := range lines {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Seq != uint64(i+1) || e.Hash != all[i].Hash || len(e.Kinds) != len(e.Events) || e.Kinds[0] != e.Events[0].Kind {
			t.Errorf("line %d = %s", i, line)
		}
		if i > 0 && e.Prev != all[i-1].Hash {
			t.Errorf("line %d does not name its predecessor", i)
		}
	}
	if _, out, _ := d.observe("events", "s-42", "-o", "json", "--from", "99"); out != "[]\n" {
		t.Errorf("nothing as JSON is %q", out)
	}
}

func TestLongTextsAreClippedUnlessFullIsGiven(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42").turn()
	long := strings.Repeat("word ", 100) + "end of it"
	w.append(events.Entry{Session: "s-42", Cause: "x", At: 1, Epoch: 1, Events: []events.Event{events.Warning{Code: "w", Message: long}}})
	if _, out, _ := d.observe("events", "s-42"); strings.Contains(out, "end of it") || !strings.Contains(out, "… 509 characters") {
		t.Errorf("events are not clipped:\n%s", out)
	}
	if _, out, _ := d.observe("events", "s-42", "--full"); !strings.Contains(out, "end of it") {
		t.Errorf("events are clipped:\n%s", out)
	}
}

func TestTranscriptIsShownAsBlocks(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	code, out, errs := d.observe("transcript", "s-42")
	if code != 0 || errs != "" {
		t.Fatalf("transcript = %d %q", code, errs)
	}
	matches(t, "transcript.txt", out)

	_, out, _ = d.observe("transcript", "s-42", "-o", "json")
	var items []content.Item
	if err := json.Unmarshal([]byte(out), &items); err != nil {
		t.Fatal(err)
	}
	if len(items) != 5 || items[4].Text() != "A main function that does nothing." {
		t.Errorf("%d items: %s", len(items), out)
	}
	if _, out, _ := d.observe("transcript", "s-42", "-o", "jsonl"); strings.Count(out, "\n") != 5 {
		t.Errorf("as lines:\n%s", out)
	}
}

func TestATranscriptShowsWhatAnApproverPutInPlaceOfArguments(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("What is in main.go?")}})
	w.reply([]content.Routing{{Known: true, Source: "w1", Queue: "default", Effects: content.ReadOnly}},
		content.CallPart(content.ToolCall{ID: "c1", Name: "fs_read_file", Input: []byte(`{"path":"main.go"}`)}))
	w.do(commands.ReportPreflight{Turn: "turn-1", Round: 1, Checks: []commands.Check{{
		Place: w.state.Turn.Calls[0].Place, Questions: []commands.Question{{RequestKind: events.QuestionCall}},
	}}})
	w.append(events.Entry{Session: "s-42", Cause: "x", At: 1, Epoch: 1, Events: []events.Event{
		events.ApprovalResolved{
			Approval: w.state.Turn.Approvals[0].ID, Call: "c1", Outcome: events.Approved, Input: []byte(`{"path":"go.mod"}`),
		},
	}})
	if _, out, _ := d.observe("transcript", "s-42"); !strings.Contains(out, `patched by its approver: {"path":"go.mod"}  c1`) {
		t.Errorf("the patch is not shown:\n%s", out)
	}
}

func TestAnUnknownSessionIsOneLine(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, command := range []string{"tail", "events", "transcript", "export", "verify"} {
		code, out, errs := d.observe(command, "nope")
		if code != 1 || out != "" || !regexp.MustCompile(`^observer: .*session nope: no such session in namespace turnlog at SERVER\n$`).MatchString(errs) {
			t.Errorf("%s = %d %q %q", command, code, out, errs)
		}
	}
}

func TestInvalidCommandLinesAreUsageErrors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"events":                               `argument SESSION is missing (see "observer events --help")`,
		"events a.b":                           `bad id: session "a.b": use 1 to 128 letters, digits, '-' or '_' (see "observer events --help")`,
		"events a --from -1":                   `--from "-1": use a whole number, 0 or more (see "observer events --help")`,
		"tail a b":                             `unexpected argument "b" (see "observer tail --help")`,
		"tail -o json":                         `--output "json": choose one of text, jsonl (see "observer tail --help")`,
		"verify":                               `give a SESSION, --file, --all, --anchor or --proof (see "observer verify --help")`,
		"verify a --file b":                    `give a SESSION, --file, --all, --anchor or --proof (see "observer verify --help")`,
		"verify --file /no/such":               `--file /no/such: no such file or directory (see "observer verify --help")`,
		"verify a --anchor /no/such":           `--anchor /no/such: no such file or directory (see "observer verify --help")`,
		"verify a --anchor /dev/null":          `--anchor /dev/null: not a regular file (see "observer verify --help")`,
		"verify --file x --origin /no/such":    `--origin /no/such: no such file or directory (see "observer verify --help")`,
		"verify --file x --origin -":           `--origin is read twice: name a file, not standard input (see "observer verify --help")`,
		"verify --file x --blobs /no/such":     `--blobs /no/such: no such file or directory (see "observer verify --help")`,
		"verify --file x --blobs main.go":      `--blobs main.go: not a folder (see "observer verify --help")`,
		"verify a --proof x --policy /no/such": `--policy /no/such: no such file or directory (see "observer verify --help")`,
		"report --file x --seal-key y":         `--seal-key opens no --file: an export of a sealed session stays sealed, and the session's key is in the deployment, so name the SESSION (see "observer report --help")`,
		"verfy a":                              `unknown command "verfy": did you mean "verify"? (see "observer --help")`,
	} {
		code, out, errs := observe(t.Context(), nil, strings.Fields(line)...)
		if code != cli.CodeUsage || out != "" || errs != "observer: "+want+"\n" {
			t.Errorf("%q = %d %q %q, want %q", line, code, out, errs, want)
		}
	}
}

func TestNoServerIsOneLine(t *testing.T) {
	t.Parallel()
	code, out, errs := observe(t.Context(), nil, "events", "s", "--server", "127.0.0.1:1")
	if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("events = %d %q %q", code, out, errs)
	}
}

func TestEveryCommandHasExamples(t *testing.T) {
	t.Parallel()
	root := newRootCommand(clitest.NoEnv)
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Example == "" || cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s has no example or no description", cmd.CommandPath())
		}
	}
}

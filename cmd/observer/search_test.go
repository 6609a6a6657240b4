package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/explain"
)

func TestManyJournalsAreSearched(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	d.session("s-43").turn()
	code, out, errs := d.observe("search", "--tool", "fs_*", "--status", "ok")
	if want := "s-42     6  2026-01-02T03:04:06.000Z  tool_result_received  c1, fs_read_file, ok: package main func main() {}\n"; code != 0 || errs != "" || out != want+strings.ReplaceAll(want, "s-42", "s-43") {
		t.Errorf("search = %d %q\n%s", code, errs, out)
	}
	_, out, _ = d.observe("search", "s-43", "--text", "MAIN.GO", "--person", "ada", "-o", "jsonl")
	var h explain.Hit
	if err := json.Unmarshal([]byte(out), &h); err != nil || h.Session != "s-43" || h.Kind != "input_queued" || h.Person.By != "ada" {
		t.Errorf("search -o jsonl = %v %s", err, out)
	}
	_, live, _ := d.observe("search", "--since", "2026-01-02T03:04:06Z", "--until", "2026-01-02T03:04:07Z")
	_, files, _ := observe(t.Context(), nil, "search", "--file", d.export("s-42"), "--file", d.export("s-43"), "--since", "2026-01-02T03:04:06Z", "--until", "2026-01-02T03:04:07Z")
	if live != files || strings.Count(live, "\n") < 6 {
		t.Errorf("from sessions\n%s\nfrom files\n%s", live, files)
	}
	if _, out, _ := d.observe("search", "s-42", "--text", "does nothing"); !strings.HasSuffix(out, "Z  reply_recorded        A main function that does nothing.\n") {
		t.Errorf("search for a reply = %q", out)
	}
	if code, out, errs := d.observe("search", "--text", "no such text"); code != 0 || out+errs != "" {
		t.Errorf("search without hits = %d %q %q", code, out, errs)
	}
}

// One damaged journal does not hide the others.
func TestASearchContinuesAfterADamagedJournal(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	d.session("s-43").turn()
	if _, err := d.nc.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: "turnlog.journal.s-42", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	code, out, errs := d.observe("search", "--status", "completed")
	if code != 1 || strings.Count(out, "turn_finished") != 2 || !strings.Contains(errs, "s-42") || strings.Contains(errs, "s-43") {
		t.Errorf("search = %d %q\n%s", code, errs, out)
	}
	whole, err := os.ReadFile(d.export("s-43"))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs = observe(t.Context(), strings.NewReader(string(whole[:len(whole)-9])), "search", "--file", "-", "--tool", "*")
	if code != 1 || !strings.Contains(out, "tool_result_received") || !strings.Contains(errs, "standard input: ") || !strings.Contains(errs, "cut off") {
		t.Errorf("search in a truncated file = %d %q\n%s", code, errs, out)
	}
}

func TestUnclearSearchesAreRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"search":                   "give at least one of --tool",
		"search --since yesterday": `--since "yesterday": use a time like`,
		"search --since 2026-01-02 --until 2026-01-02": "--since 2026-01-02 is not before --until 2026-01-02",
		"search s-1 --file x --tool y":                 "give sessions or --file, not both",
		"search s.1 --tool y":                          `session "s.1"`,
	} {
		if code, out, errs := observe(t.Context(), nil, strings.Fields(args)...); code != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s = %d %q %q, want %q", args, code, out, errs, want)
		}
	}
}

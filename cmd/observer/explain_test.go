package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
)

func TestACallIsExplained(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	code, out, errs := d.observe("explain", "s-42", "c1")
	if code != 0 || errs != "" {
		t.Fatalf("explain = %d %q %q", code, out, errs)
	}
	matches(t, "explain.txt", out)

	path := d.export("s-42")
	for _, name := range []string{"c1", "t1-r1-c1", "t1-r1-c1-g1"} {
		if code, same, errs := observe(t.Context(), nil, "explain", "--file", path, name); code != 0 || same != out {
			t.Errorf("explain --file %s = %d %q\n%s", name, code, errs, same)
		}
	}
	_, out, _ = d.observe("explain", "s-42", "c1", "-o", "json")
	var c explain.Call
	if err := json.Unmarshal([]byte(out), &c); err != nil || c.Tool != "fs_read_file" || len(c.Attempts) != 1 || c.Results[0].Bytes == 0 || c.Seen[0].Form != explain.FormFull {
		t.Errorf("explain -o json = %v\n%s", err, out)
	}
}

func TestWhatCannotBeExplained(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	w := d.session("s-44")
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("twice")}})
	same := content.CallPart(content.ToolCall{ID: "toolu/1", ProviderID: "toolu/1", Name: "fs_read_file", Input: []byte(`{}`)})
	w.reply([]content.Routing{{Known: true}, {Known: true}}, same, same)
	path := d.export("s-42")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.jsonl")
	if err := os.WriteFile(cut, whole[:len(whole)-30], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"explain s-42 c9", 1, `session s-42: no such call: c9: "observer events" shows the ids of all calls`},
		{"explain s-44 toolu/1", 1, "several calls have that name: toolu/1 means t1-r1-c1 (t1-r1-c1, fs_read_file of turn-1) and t1-r1-c2"},
		{"explain s-43 c1", 1, "observer: session s-43: no such session in namespace turnlog"},
		{"explain s-42", 2, "give SESSION and CALL, or --file and CALL"},
		{"explain", 2, "argument CALL is missing"},
		{"explain s.42 c1", 2, `session "s.42"`},
		{"explain --file " + path + " s-42 c1", 2, "give SESSION and CALL, or --file and CALL"},
		{"explain --file " + path + "x c1", 2, "no such file"},
		{"explain --file " + cut + " c1", 1, "line 8, truncated: the line is cut off"},
	} {
		code, out, errs := d.observe(strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s = %d %q %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

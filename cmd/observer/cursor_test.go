package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
)

// positions are the places in the journal of the lines that were shown.
func positions(t *testing.T, shown *clitest.Screen) []uint64 {
	t.Helper()
	var out []uint64
	for line := range strings.Lines(shown.String()) {
		var e struct{ Position uint64 }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Position == 0 {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, e.Position)
	}
	return out
}

// stored is the cursor in a file.
func stored(t *testing.T, path string) page {
	t.Helper()
	var p page
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitStored waits until the file says that the cursor stands at a position.
func awaitStored(t *testing.T, path string, position uint64) {
	t.Helper()
	end := time.NewTimer(clitest.Patience)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if raw, err := os.ReadFile(path); err == nil {
			var p page
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Fatalf("%q: %v", raw, err) // it is replaced as a whole
			}
			if p.At.Position == position {
				return
			}
		}
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("the cursor does not get to %d: %+v", position, stored(t, path))
		}
	}
}

func TestTailContinuesFromItsCursor(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42") // positions 1 and 2
	file := filepath.Join(t.TempDir(), "audit.cursor")
	args := []string{"--from", "1", "--cursor", file, "-o", "jsonl"}

	first, stop := d.tail(args...)
	first.Await(t, `"position":2`)
	awaitStored(t, file, 2) // while it runs
	if code := stop(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, first)
	}
	d.session("s-43") // 3 and 4, while it is stopped
	second, stop := d.tail(args...)
	second.Await(t, `"position":4`)
	w.turn()
	second.Await(t, "turn_finished")
	stop()
	shown := append(positions(t, first), positions(t, second)...)
	for i, p := range shown {
		if p != uint64(i+1) {
			t.Fatalf("shown are %v, want each once", shown)
		}
	}
	if got := stored(t, file); got.At.Position != uint64(len(shown)) || got.Of != jetstream.AllSessions || got.Namespace != "turnlog" {
		t.Errorf("the file says %+v", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the file: %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(file + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left next to it: %v, %v", left, err)
	}
}

// TestAKilledTailRepeatsUnstoredEntries: at least once.
func TestAKilledTailRepeatsUnstoredEntries(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	file := filepath.Join(t.TempDir(), "cursor")
	shown, stop := d.tail("s-42", "--from", "1", "--cursor", file)
	shown.Await(t, "run_started")
	awaitStored(t, file, 2)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.turn()
	shown.Await(t, "turn_finished")
	stop()
	if err := os.WriteFile(file, before, 0o600); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	again, stop := d.tail("s-42", "--cursor", file)
	again.Await(t, "turn_finished")
	stop()
	if strings.Contains(again.String(), "run_started") || !strings.HasSuffix(shown.String(), again.String()) {
		t.Errorf("shown first\n%s\nand again\n%s", shown, again)
	}
}

// TestTailRemembersWhereItStarted: entries written before the first one is shown count
// too.
func TestTailRemembersWhereItStarted(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	dir := t.TempDir()
	one, all := filepath.Join(dir, "one"), filepath.Join(dir, "all")
	_, stopOne := d.tail("s-42", "--cursor", one)
	_, stopAll := d.tail("--cursor", all)
	awaitStored(t, one, 2)
	awaitStored(t, all, 2)
	stopOne()
	stopAll()
	w.turn()
	for _, args := range [][]string{{"s-42", "--cursor", one}, {"--cursor", all}} {
		shown, stop := d.tail(args...)
		shown.Await(t, "turn_finished")
		stop()
		if text := shown.String(); !strings.Contains(text, "turn_started") || strings.Contains(text, "run_started") {
			t.Errorf("%v shows\n%s", args, text)
		}
	}
}

func TestUnsuitableCursorsAreRefused(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const of = `{"namespace":"turnlog","of":"*","at":`
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--cursor", write("empty", "")}, 2, "the file does not contain a cursor: name another one"},
		{[]string{"--cursor", write("other", `{"a":1}`)}, 2, "the file does not contain a cursor"},
		{[]string{"--cursor", write("twice", of+`{"position":1}}{}`)}, 2, "the file does not contain a cursor"},
		{[]string{"--cursor", dir}, 2, "is a directory"},
		{[]string{"s-42", "--cursor", write("all", of+`{"position":1}}`)}, 2, "it is for all sessions of namespace turnlog, not for session s-42 of namespace turnlog: name another file"},
		{[]string{"--cursor", write("one", `{"namespace":"x","of":"s-42","at":{"position":1}}`)}, 2, "it is for session s-42 of namespace x, not for all"},
		{[]string{"--cursor", write("gone", of+`{"position":7,"session":"s-42","seq":7,"hash":"`+strings.Repeat("ab", 32)+`"}}`)}, 1, "cursor does not fit the journal: there is no entry at position 7"},
		{[]string{"--cursor", write("changed", of+`{"position":2,"session":"s-42","seq":2,"hash":"`+strings.Repeat("ab", 32)+`"}}`)}, 1, "cursor does not fit the journal: at position 2"},
		{[]string{"--cursor", filepath.Join(dir, "no", "such")}, 1, "store cursor: open " + filepath.Join(dir, "no")},
	} {
		code, out, errs := d.observe(append([]string{"tail"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v = %d, %q, %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

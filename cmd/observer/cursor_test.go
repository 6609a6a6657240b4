package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
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

func TestTailContinuesFromItsCursor(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42") // positions 1 and 2
	file := filepath.Join(t.TempDir(), "audit.cursor")
	args := []string{"--from", "1", "--cursor", file, "-o", "jsonl"}

	first, stop := d.tail(args...)
	first.Await(t, `"position":2`)
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

func TestAKilledTailRepeatsUnstoredEntries(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	file := filepath.Join(t.TempDir(), "cursor")
	shown, stop := d.tail("s-42", "--from", "1", "--cursor", file)
	shown.Await(t, "run_started")
	stop()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.turn()
	shown, stop = d.tail("s-42", "--cursor", file)
	shown.Await(t, "turn_finished")
	stop()
	if err := os.WriteFile(file, before, 0o600); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	again, stop := d.tail("s-42", "--cursor", file)
	again.Await(t, "turn_finished")
	stop()
	if strings.Contains(again.String(), "run_started") || again.String() != shown.String() {
		t.Errorf("shown first\n%s\nand again\n%s", shown, again)
	}
}

// A tail stores where it starts at once, so entries that are written before it shows the
// first one are not lost. Then the file follows the output.
func TestCursorFileFollowsTheOutput(t *testing.T) {
	t.Parallel()
	for _, session := range []content.SessionID{"s-42", jetstream.AllSessions} {
		synctest.Test(t, func(t *testing.T) {
			nc := natstest.Connect(t, natstest.Start(t))
			cell, err := jetstream.Open(nc, "")
			natstest.Must(t, err)
			natstest.Must(t, admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true}))
			w := (&deployment{t: t, cell: cell}).session("s-42")
			file := filepath.Join(t.TempDir(), "cursor")
			tailed := func(during func()) string {
				ctx, cancel := context.WithCancel(t.Context())
				var out bytes.Buffer
				cmd := &cobra.Command{}
				cmd.SetContext(ctx)
				cmd.SetOut(&out)
				one := tail{app: &app{getenv: clitest.NoEnv}, session: session, cursor: bookmark{path: file}, full: new(bool), output: cli.NewChoice(asText)}
				ended := make(chan error)
				go func() { ended <- one.run(cmd, &cli.Cell{Cell: cell, Conn: nc}) }()
				synctest.Wait()
				during()
				cancel()
				natstest.Must(t, <-ended)
				return out.String()
			}
			if got := tailed(func() {
				if at := stored(t, file).At.Position; at != 2 {
					t.Errorf("it starts at %d, want 2", at)
				}
			}); got != "" {
				t.Errorf("nothing was written, but it shows\n%s", got)
			}
			w.turn()
			got := tailed(func() {
				<-time.After(storeEvery)
				synctest.Wait()
				if at := stored(t, file).At.Position; at != w.head.Guard {
					t.Errorf("while it runs the file is at %d, want %d", at, w.head.Guard)
				}
			})
			if !strings.Contains(got, "turn_started") || strings.Contains(got, "run_started") {
				t.Errorf("it shows\n%s", got)
			}
		})
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
		{[]string{"--cursor", write("gone", of+`{"position":7,"session":"s-42","seq":7,"hash":"`+strings.Repeat("ab", 32)+`"}}`)}, 1, "cursor does not match the journal: there is no entry at position 7"},
		{[]string{"--cursor", write("changed", of+`{"position":2,"session":"s-42","seq":2,"hash":"`+strings.Repeat("ab", 32)+`"}}`)}, 1, "cursor does not match the journal: position 2 has"},
		{[]string{"--cursor", filepath.Join(dir, "no", "such")}, 1, "store cursor: open " + filepath.Join(dir, "no")},
	} {
		code, out, errs := d.observe(append([]string{"tail"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v = %d, %q, %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

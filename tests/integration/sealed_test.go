package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/natstest"
)

// TestASealedSessionIsErasedAndItsProofStays runs a sealed session and an ordinary one through real processes, each with a
// marker in its prompt, file, call, result and reply. A node is killed meanwhile. Then the sealed one is erased.
func TestASealedSessionIsErasedAndItsProofStays(t *testing.T) {
	t.Parallel()
	store, dir, root := t.TempDir(), t.TempDir(), t.TempDir()
	d := deployIn(t, store)
	key, other := filepath.Join(dir, "seal.key"), filepath.Join(dir, "other.key")
	run := func(want int, program string, args ...string) string {
		t.Helper()
		out, errs, code := d.run(program, append(args, "--server", "nats://"+d.addr)...)
		if code != want {
			t.Fatalf("%s %v = %d, want %d\n%s%s", program, args, code, want, out, errs)
		}
		return out + errs
	}
	for _, file := range []string{key, other} {
		if out, errs, code := d.run("turnlog", "seal", "init", file); code != 0 {
			t.Fatalf("seal init = %d %s%s", code, out, errs)
		}
	}
	d.start("tool-worker", "--server", "nats://"+d.addr, "--tools", "shell", "--root", root, "--sandbox", "none", "--seal-key", key)
	view, err := d.cell.Catalog().Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	d.eventually("the worker offers its tools", func(context.Context) bool { return len(view.Snapshot()) == 1 })
	var n2 *process
	n1 := d.start("driver-node", "--server", "nats://"+d.addr, "--name", "n1", "--seal-key", key, "--log-level", "debug")

	stored, err := d.nc.SubscribeSync("turnlog.seal.s.*")
	natstest.Must(t, err)
	natstest.Must(t, d.nc.FlushWithContext(natstest.Within(t, time.Minute)))
	const secret, clear = "kZ8sealed9mX", "kZ8clear7qW"
	for _, s := range []struct{ id, marker, seal string }{{"s", secret, "--seal"}, {"c", clear, "--seal=false"}} {
		file := filepath.Join(dir, s.id+".txt")
		if err := os.WriteFile(file, []byte(strings.Repeat(s.marker+" in a file\n", 20_000)), 0o600); err != nil { // more than fits into a message
			t.Fatal(err)
		}
		script := d.script(`
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "yes ` + s.marker + `-result | head -n 9000"]}}]
  - text: "` + s.marker + `-reply"
`)
		out, errs, code := d.run("turnlog", "run", s.marker+"-prompt", "--session", s.id, s.seal, "--seal-key", key, "--file", file, "--model", script, "-o", "json", "--server", "nats://"+d.addr)
		var waiting turn
		if err := json.Unmarshal([]byte(out), &waiting); code != 5 || err != nil || len(waiting.Approvals) != 1 {
			t.Fatalf("run = %d %s%s, want one approval", code, out, errs)
		}
		if s.id == "s" {
			n1.kill()
			n2 = d.start("driver-node", "--server", "nats://"+d.addr, "--name", "n2", "--seal-key", key, "--log-level", "debug")
		}
		run(0, "turnlog", "approve", s.id, waiting.Approvals[0].Call, "--seal-key", key)
		if got := run(0, "turnlog", "wait", s.id, "--seal-key", key); !strings.Contains(got, s.marker+"-reply") {
			t.Errorf("wait = %s", got)
		}
	}

	if got := run(0, "observer", "transcript", "s", "--seal-key", key); !strings.Contains(got, secret+"-result") {
		t.Errorf("transcript = %s", got)
	}
	run(0, "observer", "verify", "s", "--seal-key", key)
	for name, keys := range map[string][]string{"no key": nil, "another key": {"--seal-key", other}} {
		if got := run(cli.CodeUnjudged, "observer", append([]string{"verify", "s"}, keys...)...); !strings.Contains(got, "seal key") {
			t.Errorf("%s: verify = %s", name, got)
		}
		if got := run(1, "turnlog", append([]string{"send", "s", "more"}, keys...)...); !strings.Contains(got, "seal") {
			t.Errorf("%s: send = %s", name, got)
		}
	}
	if got := run(1, "turnlog", "run", secret+"-late", "--session", "c", "--seal", "--seal-key", key); !strings.Contains(got, "not sealed") {
		t.Errorf("sealed input for a session that is not sealed = %s", got)
	}
	run(1, "turnlog", "schedule", "add", "later", "--in", "1h", "--session", "s", "more", "--seal-key", key)
	if got := run(1, "turnlog", "sessions", "erase", "c", "--seal-key", key); !strings.Contains(got, "not sealed") {
		t.Errorf("erase of a session that is not sealed = %s", got)
	}
	export := filepath.Join(dir, "s.jsonl")
	before, errs, code := d.run("observer", "export", "s", "--seal-key", key, "--server", "nats://"+d.addr)
	if err := os.WriteFile(export, []byte(before), 0o600); code != 0 || err != nil {
		t.Fatalf("export = %d %s, %v", code, errs, err)
	}
	heads := filepath.Join(dir, "heads.jsonl")
	anchors, errs, code := d.run("observer", "heads", "s", "--server", "nats://"+d.addr)
	if err := os.WriteFile(heads, []byte(anchors), 0o600); code != 0 || err != nil {
		t.Fatalf("heads = %d %s, %v", code, errs, err)
	}

	d.eventually("the session is parked", func(ctx context.Context) bool {
		last, err := d.cell.Journal().Last(ctx, "s") // without a key
		return err == nil && slices.Contains(last.Entry.Kinds(), events.KindParked)
	})
	if got := run(1, "observer", "search", "s", "--tool", "*"); !strings.Contains(got, "session s: ") || !strings.Contains(got, "(not searched: ") {
		t.Errorf("search without the seal key = %s", got)
	}
	if got := run(0, "turnlog", "sessions", "erase", "s", "--reason", "request 7"); !strings.Contains(got, "s was erased") {
		t.Errorf("erase = %s", got)
	}
	run(0, "turnlog", "sessions", "erase", "s") // again changes nothing
	backup, err := stored.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.nc.RequestWithContext(t.Context(), backup.Subject, backup.Data); err != nil { // a backup brings the key back
		t.Fatal(err)
	}
	for _, keys := range [][]string{nil, {"--seal-key", key}} {
		if got := run(1, "observer", append([]string{"verify", "s"}, keys...)...); !strings.Contains(got, "rolled-back") || !strings.Contains(got, "the key exists") {
			t.Errorf("verify with the key back = %s", got)
		}
	}
	run(0, "turnlog", "sessions", "erase", "s")
	if got := run(cli.CodeGone, "observer", "verify", "s", "--anchor", heads, "--seal-key", key); !strings.Contains(got, "was erased at") || !strings.Contains(got, "request 7") || !strings.Contains(got, "entries stay, sealed for good") || strings.Contains(got, "sessions rm") {
		t.Errorf("verify of the erased session = %s", got)
	}
	run(0, "observer", "search", "s", "--tool", "*")
	if got := run(1, "turnlog", "send", "s", "more", "--seal-key", key); !strings.Contains(got, "erased") {
		t.Errorf("send to the erased session = %s", got)
	}
	run(0, "turnlog", "gc", "--older-than", "1ns", "--delete", "--seal-key", key)
	run(cli.CodeGone, "observer", "verify", "s")
	if logs := n1.output() + n2.output(); strings.Contains(logs, secret) || !strings.Contains(logs, "command completed") {
		t.Error("the log of a node shows sealed content")
	}
	if got := shows(t, store, secret); len(got) > 0 {
		t.Errorf("sealed content is in %v", got)
	}
	if got := shows(t, store, clear); len(got) == 0 {
		t.Error("no file has what is not sealed: the search finds nothing")
	}
	if strings.Contains(before, secret) {
		t.Error("the export shows sealed content")
	}
}

// shows lists the files of a directory that have a text.
func shows(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

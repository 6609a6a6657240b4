package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
)

// attach has a person attach a file, which is in the deployment's store.
func (d *deployment) attach(w *writer, name, text string) (id string) {
	d.t.Helper()
	id, _, err := d.cell.Blobs().PutFrom(d.t.Context(), strings.NewReader(text))
	if err != nil {
		d.t.Fatal(err)
	}
	it := content.UserText("read it")
	it.Parts = append(it.Parts, content.BlobPart(name, "text/plain", id, int64(len(text))))
	w.do(commands.SubmitInput{Items: []content.Item{it}})
	return id
}

// loseBlobs deletes everything that the store of blobs has.
func (d *deployment) loseBlobs() {
	d.t.Helper()
	msg, err := d.nc.Request("$JS.API.STREAM.PURGE.OBJ_TURNLOG_BLOBS", nil, 5*time.Second)
	if err != nil || strings.Contains(string(msg.Data), `"error"`) {
		d.t.Fatalf("%s, %v", msg.Data, err)
	}
}

// judged verifies and returns the exit code, the verdict's faults and what it does not prove.
func judged(t *testing.T, code int, out string) (int, []verdict.Fault, string) {
	t.Helper()
	var v verdict.Verdict
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return code, v.Faults, strings.Join(v.NotProved, "\n")
}

func TestAttachedFilesAreChecked(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-1")
	id := d.attach(w, "notes.txt", "the first")
	folder, file := filepath.Join(t.TempDir(), "files"), filepath.Join(t.TempDir(), "s-1.jsonl")
	code, export, errs := d.observe("export", "s-1", "--blobs", folder)
	if code != 0 || errs != "" {
		t.Fatalf("export = %d %s", code, errs)
	}
	if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, id))
	if err != nil || string(raw) != "the first" {
		t.Fatalf("the exported file is %q, %v", raw, err)
	}
	check := func(name string, want verdict.Kind, args ...string) {
		t.Helper()
		code, out, _ := d.observe(append(args, "-o", "json")...)
		code, faults, notProved := judged(t, code, out)
		found := slices.ContainsFunc(faults, func(f verdict.Fault) bool {
			return f.Kind == want && f.Seq == 3 && strings.Contains(f.What, `"notes.txt"`)
		})
		if want == "" && (code != 0 || len(faults) > 0) || want != "" && (code != 1 || len(faults) != 1 || !found) {
			t.Errorf("%s: exit code %d, %v; want %q", name, code, faults, want)
		}
		if unchecked := strings.Contains(notProved, "files: the bytes of 1"); unchecked != (name == "no folder") {
			t.Errorf("%s: not proved are %s", name, notProved)
		}
	}
	offline := []string{"verify", "--file", file}
	check("a deployment", "", "verify", "s-1")
	check("no folder", "", offline...)
	offline = append(offline, "--blobs", folder)
	check("a folder", "", offline...)
	if err := os.WriteFile(filepath.Join(folder, id), []byte("the other"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("other bytes", verdict.Tampered, offline...)
	if err := os.Remove(filepath.Join(folder, id)); err != nil {
		t.Fatal(err)
	}
	check("a file less", verdict.Missing, offline...)
	d.loseBlobs()
	check("a blob less", verdict.Missing, "verify", "s-1")
	if code, out, errs := d.observe("export", "s-1", "--blobs", folder); code != 1 || !strings.Contains(errs, "notes.txt") || out != export {
		t.Errorf("export = %d %s", code, errs)
	}
	if code, _, errs := d.observe("verify", "s-1", "--blobs", folder); code != 2 || !strings.Contains(errs, "--blobs is for --file") {
		t.Errorf("verify --blobs without --file = %d %s", code, errs)
	}
}

// The payload of a large entry is a blob.
func TestAMissingPayloadIsMissing(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-1")
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText(strings.Repeat("large ", 1<<18))}})
	d.loseBlobs()
	code, out, _ := d.observe("verify", "s-1", "-o", "json")
	if code, faults, _ := judged(t, code, out); code != 1 || len(faults) != 1 || faults[0].Kind != verdict.Missing || faults[0].Seq != 3 {
		t.Errorf("exit code %d, %v; want entry 3 missing", code, faults)
	}
}

package replay

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop/snapshot"
)

var update = flag.Bool("update", false, "write the files that are missing; existing ones are never changed")

// It is not parallel: with -update it runs before the test that needs the files.
func TestEveryFrozenJournalReplays(t *testing.T) {
	if *update {
		record(t)
	}
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d journals, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			replay(t, file)
		})
	}
}

// replay compares one journal with what it was when it was written.
func replay(t *testing.T, file string) {
	t.Helper()
	exported, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	records := load(t, exported)
	rep, err := audit.Verify(journal.All(records))
	if err != nil {
		t.Fatalf("Verify = %v", err)
	}
	for _, v := range append(rep.Faults, rep.Warnings...) {
		t.Error(v)
	}
	if rep.UnjudgedFrom != 0 {
		t.Errorf("entries from %d on could not be judged", rep.UnjudgedFrom)
	}
	s, err := audit.Replay(rep.Session, journal.All(records))
	if err != nil {
		t.Fatalf("Replay = %v", err)
	}
	compare(t, strings.TrimSuffix(file, ".jsonl")+".txt", describe(s, rep))
	if items := audit.Transcript(entries(records)); len(items) != len(s.Transcript) {
		t.Errorf("the audit's own fold has %d items, the core's %d", len(items), len(s.Transcript))
	}
	written, err := snapshot.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := snapshot.Decode(written)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(describe(s, rep), describe(read, rep)); diff != "" {
		t.Errorf("a snapshot is not what was folded:\n%s", diff)
	}
	var again bytes.Buffer
	if err := audit.Export(&again, journal.All(records)); err != nil {
		t.Fatal(err)
	}
	if back := load(t, again.Bytes()); cmp.Diff(payloads(records), payloads(back)) != "" {
		t.Error("an export of the import holds other bytes")
	}
}

func load(t *testing.T, exported []byte) []journal.Record {
	t.Helper()
	var out []journal.Record
	for rec, err := range audit.Import(bytes.NewReader(exported)) {
		if err != nil {
			t.Fatalf("Import = %v", err)
		}
		out = append(out, rec)
	}
	return out
}

// compare compares text with a file that never changes.
func compare(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && *update {
		err = os.WriteFile(file, []byte(got), 0o644)
		want = []byte(got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-then +now):\n%s", file, diff)
	}
}

// A story that no longer runs would leave the next release without its journals.
func TestEveryStoryRecordsItsJournal(t *testing.T) {
	t.Parallel()
	for name, tell := range stories() {
		t.Run(name, func(t *testing.T) {
			j := journalOf(t, content.SessionID(name), tell)
			rep, err := audit.Verify(j.Read(t.Context(), content.SessionID(name), 0))
			if err != nil || !rep.OK() {
				t.Errorf("Verify = %v, %v", rep.Faults, err)
			}
			if _, err := os.Stat(filepath.Join("testdata", name+".jsonl")); err != nil {
				t.Errorf("the story is not recorded: %v", err)
			}
		})
	}
}

// record writes missing journals.
func record(t *testing.T) {
	t.Helper()
	for name, tell := range stories() {
		file := filepath.Join("testdata", name+".jsonl")
		if _, err := os.Stat(file); err == nil {
			continue
		}
		id := content.SessionID(name)
		j := journalOf(t, id, tell)
		var out bytes.Buffer
		if err := audit.Export(&out, j.Read(t.Context(), id, 0)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Package frozen reads the recorded journals of tests/replay and the recorded events of package events, which
// never change.
package frozen

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Journal returns the records of one journal.
func Journal(t testing.TB, name string) []journal.Record {
	t.Helper()
	return read(t, filepath.Join(journals(t), name+".jsonl"))
}

// Journals returns the records of all journals, by name.
func Journals(t testing.TB) map[string][]journal.Record {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(journals(t), "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d journals, %v", len(files), err)
	}
	all := make(map[string][]journal.Record, len(files))
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = read(t, file)
	}
	return all
}

// Events returns the events of all golden files, by the files' names: those of a kind, and of variants of it.
func Events(t testing.TB) map[string][]events.Event {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir(t, "events", "testdata"), "*.golden"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	all := make(map[string][]events.Event, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of the repository
		if err != nil {
			t.Fatal(err)
		}
		coded, _, _ := strings.Cut(string(text), "\n\n")
		payload, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".golden")] = e.Events
	}
	return all
}

func journals(t testing.TB) string {
	t.Helper()
	return dir(t, "tests", "replay", "testdata")
}

// dir looks for a directory of the repository above that of the test.
func dir(t testing.TB, path ...string) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		found := filepath.Join(at, filepath.Join(path...))
		if _, err := os.Stat(found); err == nil {
			return found
		}
		if at == filepath.Dir(at) {
			t.Fatalf("no directory above this one has %s", filepath.Join(path...))
		}
		at = filepath.Dir(at)
	}
}

func read(t testing.TB, file string) (all []journal.Record) {
	t.Helper()
	in, err := os.Open(file) //nolint:gosec // of the repository
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	for rec, err := range audit.Import(in) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

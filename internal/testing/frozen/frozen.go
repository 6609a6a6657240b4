// Package frozen reads the recorded journals of tests/replay, which never change.
package frozen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/events/journal"
)

// Journal returns the records of one journal.
func Journal(t testing.TB, name string) []journal.Record {
	t.Helper()
	return read(t, filepath.Join(dir(t), name+".jsonl"))
}

// Journals returns the records of all journals, by name.
func Journals(t testing.TB) map[string][]journal.Record {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir(t), "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d journals, %v", len(files), err)
	}
	all := make(map[string][]journal.Record, len(files))
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = read(t, file)
	}
	return all
}

// dir looks for the journals above the directory of the test.
func dir(t testing.TB) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		found := filepath.Join(at, "tests", "replay", "testdata")
		if _, err := os.Stat(found); err == nil {
			return found
		}
		if at == filepath.Dir(at) {
			t.Fatal("no directory above this one has tests/replay/testdata")
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

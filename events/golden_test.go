package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files that are missing; existing ones are never changed")

// A golden file contains the base64 of an entry with one event, a blank line, and the
// event in JSON. Both are frozen: every later release must read the entry and return
// the same JSON. A kind that got fields has another file for each shape that it had.
func TestGoldenBytesOfEveryKindAreReadAndWrittenUnchanged(t *testing.T) {
	if *update { // before any test that reads them
		writeMissingGoldens(t)
	}
	t.Parallel()
	for path, k := range goldens(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".golden"), func(t *testing.T) {
			t.Parallel()
			payload, view := readGolden(t, path)
			e, err := Decode(payload)
			if err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if !slices.Equal(e.Kinds(), []Kind{k}) {
				t.Fatalf("the entry holds %v, want %v", e.Kinds(), k)
			}
			again, err := e.Encode()
			if err != nil {
				t.Fatalf("Encode: %v", err)
			}
			if !bytes.Equal(again, payload) {
				t.Errorf("the entry is written differently:\n got %q\nwant %q", again, payload)
			}
			if got := indented(t, e.Events[0]); got != view {
				t.Errorf("the event is shown differently:\n got %s\nwant %s", got, view)
			}
		})
	}
}

// The newest file of a kind has the event of its sample, which sets all fields.
func TestGoldenBytesShowEveryField(t *testing.T) {
	t.Parallel()
	for _, ev := range samples() {
		if !shown(t, ev) {
			t.Errorf("%s: no golden bytes show its sample (go test ./events -update writes them to another file)", KindOf(ev))
		}
	}
}

// goldens returns the kind of each golden file.
func goldens(t *testing.T) map[string]Kind {
	t.Helper()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %d, %v", len(files), err)
	}
	all := make(map[string]Kind, len(files))
	for _, f := range files {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".golden"), ".")
		if all[f] = Kind(name); !slices.Contains(Kinds(), Kind(name)) {
			t.Errorf("%s: no such kind", f)
		}
	}
	return all
}

// goldenPath names the file of a kind's n-th shape, counted from 1.
func goldenPath(k Kind, n int) string {
	name := string(k)
	if n > 1 {
		name += "." + strconv.Itoa(n)
	}
	return filepath.Join("testdata", name+".golden")
}

// shapes counts the files of a kind.
func shapes(k Kind) int {
	for n := 1; ; n++ {
		if _, err := os.Stat(goldenPath(k, n)); err != nil {
			return n - 1
		}
	}
}

// shown reports whether the newest file of a kind has this event.
func shown(t *testing.T, ev Event) bool {
	t.Helper()
	n := shapes(KindOf(ev))
	if n == 0 {
		return false
	}
	payload, _ := readGolden(t, goldenPath(KindOf(ev), n))
	e, err := Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(encoded(t, e.Events[0]), encoded(t, ev))
}

func encoded(t *testing.T, ev Event) []byte {
	t.Helper()
	payload, err := sampleEntry(ev).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func writeMissingGoldens(t *testing.T) {
	t.Helper()
	for _, ev := range samples() {
		if shown(t, ev) {
			continue
		}
		var b strings.Builder
		for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(encoded(t, ev))), 76) {
			fmt.Fprintf(&b, "%s\n", line)
		}
		fmt.Fprintf(&b, "\n%s\n", indented(t, ev))
		if err := os.WriteFile(goldenPath(KindOf(ev), shapes(KindOf(ev))+1), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readGolden(t *testing.T, path string) (payload []byte, view string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	coded, view, found := strings.Cut(string(b), "\n\n")
	if !found {
		t.Fatalf("%s: no blank line between bytes and view", path)
	}
	payload, err = base64.StdEncoding.DecodeString(coded)
	if err != nil {
		t.Fatal(err)
	}
	return payload, strings.TrimSuffix(view, "\n")
}

func indented(t *testing.T, ev Event) string {
	t.Helper()
	raw, err := MarshalEvent(ev)
	if err != nil {
		t.Fatalf("MarshalEvent: %v", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
